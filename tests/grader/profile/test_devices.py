"""GPUs as nvidia-smi tells of them, the lock on them, and what is left on them."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grader import devices
from grader.errors import MachineError
from grader.records import MiB

TWO = "0, GPU-aaaa-1, NVIDIA H200, 580.1, 143771, 4\n1, GPU-bbbb-2, NVIDIA H200, 580.1, 143771, 900"
Answers = Callable[..., None]


def test_gpus_are_told_by_name_driver_and_memory(nvidia_smi: Answers) -> None:
    """MiB become bytes; the report's facts follow from them."""
    nvidia_smi(TWO)
    first, second = devices.found()
    assert (first.uuid, first.total_bytes, second.used_bytes) == ("GPU-aaaa-1", 143771 * MiB, 900 * MiB)
    assert devices.facts((first, second)) == {"gpus": "2 × NVIDIA H200", "gpu_driver": "580.1", "gpu_memory_bytes": str(143771 * MiB)}


@pytest.mark.parametrize(
    ("visible", "uuids"),
    [("1", ["GPU-bbbb-2"]), ("1,0", ["GPU-bbbb-2", "GPU-aaaa-1"]), ("GPU-aaaa", ["GPU-aaaa-1"]), ("", []), ("7", [])],
)
def test_only_visible_gpus_count(nvidia_smi: Answers, monkeypatch: pytest.MonkeyPatch, visible: str, uuids: list[str]) -> None:
    """Slurm and CI say by CUDA_VISIBLE_DEVICES which GPUs a job has; nvidia-smi shows all, and the order is the variable's."""
    nvidia_smi(TWO)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [gpu.uuid for gpu in devices.found()] == uuids


def test_a_machine_without_a_driver_has_no_gpus(nvidia_smi: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that fails and one that isn't there are the same: none, and no error."""
    nvidia_smi(None)
    assert devices.found() == () and devices.facts(()) == {}
    monkeypatch.setenv("PATH", "/nowhere")
    assert devices.found() == () and devices.tenants() == ()


def test_what_is_left_is_named(nvidia_smi: Answers) -> None:
    """A process of the grader's worker that was not there before is told with its number; strangers are not ours to judge."""
    command = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()", "grader.worker.zygote"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as left:
        assert left.stdout is not None
        left.stdout.readline()
        nvidia_smi(TWO, f"{left.pid}, GPU-aaaa-1, 514\n{os.getpid()}, GPU-aaaa-1, 20\nnonsense")
        before = devices.tenants()
        assert devices.left_behind(()) == (f"Left on a GPU: process {left.pid} holds 514 MiB on GPU-aaaa-1.",)
        assert devices.left_behind(before) == ()
        left.kill()


def test_one_grading_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one process holds the GPUs another is told that it waits, and gets them when the first is gone, however it went."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = "import sys\nfrom grader import devices\nwith devices.held():\n    print('held', flush=True)\n    sys.stdin.read()"
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        told: list[str] = []

        def hear(sentence: str) -> None:
            told.append(sentence)
            other.kill()

        with devices.held(hear):
            assert len(told) == 1 and "Another grading" in told[0]


def test_the_lock_serves_every_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file may be another's and not writable: it is locked all the same. A link in its place is refused."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with devices.held():
        lock = tmp_path / "grader-gpu" / "lock"
        assert lock.stat().st_mode & 0o777 == 0o444
        with lock.open() as again, pytest.raises(BlockingIOError):
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    lock.unlink()
    lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MachineError, match="lock"), devices.held():
        pass
