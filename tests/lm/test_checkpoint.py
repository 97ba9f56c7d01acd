"""A checkpoint is whole or the one before it, and a resumed run goes on to the bit."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import train

from lm.checkpoint import read_checkpoint, save_atomically

FLAGS = ["--preset", "tiny", "--sequence", "32", "--batch", "4", "--device", "cpu", "--log-every", "1", "--evaluate-batches", "1"]


def die_when_called(*_: object, **__: object) -> None:
    """Die as a machine does that loses its power: nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)


def save_in_a_process_that_dies(path: Path, prepare_death: Callable[[], None]) -> None:
    """Save a second checkpoint over the first in a forked process, which must die of it."""
    weights = torch.ones(100_000)  # before the fork: torch's pool of threads doesn't survive it, and a fill of this size waits for the pool
    pid = os.fork()
    if pid == 0:
        try:
            prepare_death()
            save_atomically({"step": 2, "weights": weights}, path)
        finally:
            os._exit(0)  # reached only if death did not come
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), "the saving process survived, so this test tested nothing"


def half_then_death(real_save: Callable[..., None]) -> Callable[..., None]:
    """Return a torch.save that writes half of the bytes, hands them to the system, and dies."""

    def save(state: dict[str, Any], file: Any) -> None:
        real_save(state, file)
        file.flush()
        file.truncate(file.tell() // 2)
        die_when_called()

    return save


@pytest.mark.parametrize("moment", ["in the middle of the bytes", "before they are on the disk", "before the new name"])
def test_killed_while_saving_the_earlier_checkpoint_is_whole(tmp_path: Path, moment: str) -> None:
    """Whenever the saving process is killed, the file under the checkpoint's name is the earlier one and loads."""
    path = tmp_path / "run.pt"
    save_atomically({"step": 1, "weights": torch.zeros(100_000)}, path)

    def prepare_death() -> None:
        if moment == "in the middle of the bytes":
            torch.save = half_then_death(torch.save)
        elif moment == "before they are on the disk":
            os.fsync = die_when_called
        else:
            os.replace = die_when_called  # type: ignore[assignment]

    save_in_a_process_that_dies(path, prepare_death)
    saved = read_checkpoint(path)
    assert saved["step"] == 1
    assert not saved["weights"].any()
    save_atomically({"step": 3, "weights": torch.ones(3)}, path)  # what the killed one left is no obstacle
    assert read_checkpoint(path)["step"] == 3
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]


def test_bytes_are_on_the_disk_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rename may reach the disk before the bytes do, unless they are synced first; the name is synced after."""
    order: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: (order.append("fsync"), real_fsync(number)))
    monkeypatch.setattr(os, "replace", lambda *names: (order.append("replace"), real_replace(*names)))
    save_atomically({"step": 1}, tmp_path / "run.pt")
    assert order == ["fsync", "replace", "fsync"]


def logged(path: Path, event: str) -> list[dict[str, Any]]:
    """The log's records of one kind."""
    return [record for line in path.read_text().splitlines() if (record := json.loads(line))["event"] == event]


def same_bits(a: Any, b: Any) -> bool:
    """Whether two nested checkpoints hold the same, tensors to the bit."""
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_bits(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same_bits(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def test_a_resumed_run_is_the_uninterrupted_one_to_the_bit(generated_tokens: Path, tmp_path: Path) -> None:
    """Three steps, a checkpoint, three more: weights, moments, random states, place in the data and losses are those of six in one go.

    Dropout is on, so a random state that is lost shows; the learning rate follows --steps, so the first three come from a run of six
    whose checkpoint of step 3 is taken away.
    """
    whole, halved = tmp_path / "whole.pt", tmp_path / "halved.pt"
    flags = [*FLAGS, "--data", str(generated_tokens), "--steps", "6", "--dropout", "0.2"]
    kept: list[bytes] = []
    real_save = train.Run.save

    def keep_step_3(run: train.Run) -> None:
        real_save(run)
        if run.step == 3:
            kept.append(whole.read_bytes())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train.Run, "save", keep_step_3)
        train.main([*flags, "--checkpoint", str(whole), "--checkpoint-every", "3", "--log-file", str(tmp_path / "whole.jsonl")])
    halved.write_bytes(kept[0])
    torch.manual_seed(999)  # whatever happened in between
    train.main([*flags, "--checkpoint", str(halved), "--resume", "--log-file", str(tmp_path / "halved.jsonl")])
    assert same_bits(read_checkpoint(whole), read_checkpoint(halved))
    losses = [(record["step"], record["loss"]) for record in logged(tmp_path / "whole.jsonl", "step")]
    assert [(record["step"], record["loss"]) for record in logged(tmp_path / "halved.jsonl", "step")] == losses[3:]


def test_two_runs_with_one_seed_are_equal_and_another_seed_differs(generated_tokens: Path, tmp_path: Path) -> None:
    """The seed decides everything: first weights (which a learning rate of 0 leaves as they were), order of the data, dropout."""
    checkpoints = []
    for name, seed in (("a", "5"), ("b", "5"), ("c", "6")):
        path = tmp_path / f"{name}.pt"
        train.main(
            [
                *FLAGS,
                "--data",
                str(generated_tokens),
                "--steps",
                "2",
                "--dropout",
                "0.1",
                "--learning-rate",
                "0",
                "--seed",
                seed,
                "--checkpoint",
                str(path),
            ]
        )
        checkpoints.append(read_checkpoint(path))
    assert same_bits(checkpoints[0], checkpoints[1])
    assert not same_bits(checkpoints[0]["model"], checkpoints[2]["model"])


def test_a_checkpoint_of_another_model_is_refused(generated_tokens: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Resuming with a flag that changes the weights names what was saved and what is asked now."""
    path = tmp_path / "run.pt"
    flags = [*FLAGS, "--data", str(generated_tokens), "--checkpoint", str(path)]
    train.main([*flags, "--steps", "1"])
    with pytest.raises(SystemExit) as stopped:
        train.main([*flags, "--steps", "2", "--resume", "--preset", "1m"])
    assert stopped.value.code == 2
    assert "was saved with max_tokens 64, this run has 256" in capsys.readouterr().err
