"""The training program learns, logs what it did, and refuses what it cannot do with the name of what is missing."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
import train
from torch import nn
from torch.distributed.run import get_args_parser

from lm.checkpoint import read_checkpoint
from lm.flags import WAITING, make_parser, what_is_missing
from lm.gpt import PRESETS
from lm.training import counted_flops_per_token, scheduled_learning_rate

FLAGS = ["--preset", "tiny", "--sequence", "32", "--device", "cpu", "--evaluate-batches", "2"]
SOLUTIONS = Path(train.__file__).parent


def records(path: Path, event: str) -> list[dict[str, Any]]:
    """The log's records of one kind."""
    return [record for line in path.read_text().splitlines() if (record := json.loads(line))["event"] == event]


def refusal(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """What the program says when it refuses these flags, which it must, with status 2."""
    with pytest.raises(SystemExit) as stopped:
        train.main(["--data", "nowhere", *flags])
    assert stopped.value.code == 2
    return capsys.readouterr().err


def be_the_only_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set what torchrun would, for a group of one; port 0 takes any that is free."""
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("flag", "value", "assignment"),
    [
        ("--pipeline", "2", "pipeline_parallel"),
        ("--expert", "2", "expert_parallel"),
    ],
)
def test_a_flag_whose_assignment_is_not_there_names_it(capsys: pytest.CaptureFixture[str], flag: str, value: str, assignment: str) -> None:
    """Before any work, the program ends with status 2 and the name of the assignment that will bring the flag."""
    said = refusal(capsys, flag, value)
    assert f"{flag} {value} is for the assignment {assignment}" in said
    assert assignment in {name for _, _, name in WAITING}


@pytest.mark.parametrize(
    ("flag", "value", "assignment"),
    [
        ("--attention", "flash", "flash_attention"),
        ("--data-parallel", "ddp", "data_parallel"),
        ("--precision", "fp16", "mixed_precision"),
        ("--accumulate", "2", "recomputation"),
        ("--recompute", "full", "recomputation"),
        ("--context", "2", "context_parallel"),
    ],
)
def test_a_flag_that_runs_the_students_file_says_which(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, flag: str, value: str, assignment: str
) -> None:
    """Without the file beside train.py, the refusal names it."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert f"{flag} {value} runs your {assignment}.py" in refusal(capsys, flag, value)


def test_kernels_need_a_gpu_or_the_interpreter(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a model is built, flash attention is refused in a sentence where no GPU is, unless Triton's interpreter was asked for."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(train, "Run", None)  # reaching it would be a TypeError
    said = refusal(capsys, "--attention", "flash")
    assert "there is none here" in said and "--attention sdpa" in said and "TRITON_INTERPRET=1" in said
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert "--device cpu leaves it none" in refusal(capsys, "--attention", "flash", "--device", "cpu")
    options = make_parser(None).parse_args(["--data", "nowhere", "--attention", "flash"])
    assert what_is_missing(options) is None
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert what_is_missing(options) is None


def test_ranks_and_data_parallelism_need_each_other(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Several ranks without a wrapper would train several models; a wrapper without ranks has nobody to talk to."""
    assert "torchrun" in refusal(capsys, "--data-parallel", "torch_ddp")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert "nothing keeps their weights equal" in refusal(capsys)


def test_missing_data_and_checkpoints_say_how_to_get_them(capsys: pytest.CaptureFixture[str]) -> None:
    """No tokens: `make data`. No checkpoint: name the file. No TF32 on a CPU: fp32."""
    assert "holds no train_*.tokens; `make data` writes them" in refusal(capsys, "--device", "cpu")
    assert "--resume finds no checkpoint" in refusal(capsys, "--resume")
    assert "a CPU has no tf32" in refusal(capsys, "--device", "cpu", "--precision", "tf32")


def test_the_loss_falls_on_text_that_can_be_learnt(generated_tokens: Path, tmp_path: Path) -> None:
    """Sixty steps of the smallest model start at the loss of a guess and learn more than which tokens are frequent."""
    log = tmp_path / "run.jsonl"
    flags = ["--steps", "60", "--learning-rate", "1e-2", "--warmup", "5", "--log-file", str(log), "--log-every", "1", "--attention", "sdpa"]
    train.main([*FLAGS, "--data", str(generated_tokens), *flags])
    start, steps, evaluations = (records(log, event) for event in ("start", "step", "evaluation"))
    vocab_size = start[0]["config"]["vocab_size"]
    assert steps[0]["loss"] == pytest.approx(math.log(vocab_size), rel=0.02)  # small initial weights: all tokens alike
    tokens = torch.cat([torch.from_numpy(shard.tokens.astype("int64")) for shard in train.open_shards(generated_tokens, "train")])
    shares = tokens.bincount() / len(tokens)
    unigram_entropy = -(shares[shares > 0] * shares[shares > 0].log()).sum().item()
    assert evaluations[-1]["loss"] < 0.75 * unigram_entropy


def test_the_log_re_derives_its_own_figures(generated_tokens: Path, tmp_path: Path) -> None:
    """Tokens/s and MFU follow from the logged step time, FLOPs and peak, so a reader can check each of them."""
    log = tmp_path / "run.jsonl"
    train.main([*FLAGS, "--data", str(generated_tokens), "--steps", "4", "--log-file", str(log), "--log-every", "2"])
    start, steps = records(log, "start")[0], records(log, "step")
    assert [step["step"] for step in steps] == [2, 4]
    for step in steps:
        tokens_per_step = start["flags"]["batch"] * start["flags"]["sequence"] * start["world_size"]
        assert step["tokens_per_s"] == pytest.approx(tokens_per_step / step["step_s"])
        assert step["mfu"] == pytest.approx(step["tokens_per_s"] * start["flops_per_token"] / start["peak_flops_per_s"])
        assert step["peak_memory_bytes"] > 0


def test_the_step_time_is_that_of_one_step(generated_tokens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two reports the clock is read twice, so on a clock that ticks once per reading two steps take half a tick each.

    Evaluations lie between the readings of two intervals, and belong to neither.
    """
    clock = types.SimpleNamespace(perf_counter=itertools.count().__next__, process_time=lambda: 0.0)
    monkeypatch.setattr(train, "time", clock)
    flags = ["--steps", "4", "--log-every", "2", "--evaluate-every", "2", "--log-file", str(tmp_path / "run.jsonl")]
    train.main([*FLAGS, "--data", str(generated_tokens), *flags])
    assert [step["step_s"] for step in records(tmp_path / "run.jsonl", "step")] == [0.5, 0.5]


def test_flops_are_counted_as_nanogpt_derives_them() -> None:
    """GPT-2 124M: 6 per parameter of a matrix product and 12 per layer, channel and token of context (PaLM, appendix B)."""
    config = PRESETS["gpt2-124m"]
    matrices = 12 * config.num_layers * config.hidden_size**2 + config.vocab_size * config.hidden_size
    expected = 6 * matrices + 12 * config.num_layers * config.hidden_size * 1024
    assert counted_flops_per_token(config, 1024) == expected


def test_the_learning_rate_warms_up_and_ends_at_a_tenth() -> None:
    """The schedule's corners: the first step, the end of the warm-up, half way, the last step."""
    schedule = {"num_steps": 111, "warmup_steps": 10, "peak": 1.0}
    rates = [scheduled_learning_rate(step, **schedule) for step in (0, 9, 10, 60, 110)]  # type: ignore[arg-type]
    assert rates == pytest.approx([0.1, 1.0, 1.0, 0.55, 0.1])


def test_the_students_ddp_is_waited_for_once_per_step(generated_tokens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--data-parallel ddp wraps the model in the class of data_parallel.py and waits for it after each backward."""
    waited: list[bool] = []

    class DistributedDataParallel(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            return self.module(*inputs)

        def finish_gradient_synchronization(self) -> None:
            waited.append(all(p.grad is not None for p in self.module.parameters()))

    module = types.ModuleType("data_parallel")
    module.DistributedDataParallel = DistributedDataParallel  # type: ignore[attr-defined]
    module.__spec__ = types.SimpleNamespace(name="data_parallel")  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "data_parallel", module)
    be_the_only_rank(monkeypatch)
    train.main([*FLAGS, "--data", str(generated_tokens), "--steps", "2", "--data-parallel", "ddp"])
    assert waited == [True, True]


def losses(tokens: Path, log: Path, *flags: str) -> list[float]:
    """Train for three steps on batches of four; return the loss of every step and of the evaluation."""
    train.main([*FLAGS, "--data", str(tokens), "--steps", "3", "--batch", "4", "--log-every", "1", "--log-file", str(log), *flags])
    return [record["loss"] for event in ("step", "evaluation") for record in records(log, event)]


@pytest.mark.parametrize("kind", ["full", "selective"])
def test_recomputation_changes_no_bit(generated_tokens: Path, tmp_path: Path, kind: str) -> None:
    """The same numbers are made twice, dropout's too, so the losses are the same ones; backward ran the blocks once more."""
    from lm.gpt import MLP

    calls: list[int] = []
    forward, plain = MLP.forward, losses(generated_tokens, tmp_path / "plain.jsonl", "--dropout", "0.1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MLP, "forward", lambda self, x: (calls.append(1), forward(self, x))[1])
        plain_calls = (losses(generated_tokens, tmp_path / "again.jsonl", "--dropout", "0.1"), len(calls))[1]
        calls.clear()
        assert losses(generated_tokens, tmp_path / "recomputed.jsonl", "--dropout", "0.1", "--recompute", kind) == plain
    num_blocks = records(tmp_path / "plain.jsonl", "start")[0]["config"]["num_layers"]
    assert len(calls) - plain_calls == 3 * num_blocks


@pytest.mark.parametrize("pieces", ["2", "3"])
def test_micro_batches_train_as_the_whole_batch(generated_tokens: Path, tmp_path: Path, pieces: str) -> None:
    """Also where they are of different sizes: 3 pieces of 4 sequences are 2 and 2. Sums in another order round otherwise."""
    plain = losses(generated_tokens, tmp_path / "plain.jsonl")
    assert losses(generated_tokens, tmp_path / "pieces.jsonl", "--accumulate", pieces) == pytest.approx(plain, rel=1e-5)


def test_fp16_trains_as_fp32_and_goes_on_with_its_scale(generated_tokens: Path, tmp_path: Path) -> None:
    """The loss that is reported is unscaled; a resumed run is, to the bit, the run that was not interrupted."""
    # fp16 keeps 11 bits: products are off by 2**-11 of their size, and the loss averages that out
    assert losses(generated_tokens, tmp_path / "16.jsonl", "--precision", "fp16") == pytest.approx(
        losses(generated_tokens, tmp_path / "32.jsonl"), rel=2**-9
    )
    saved = ["--precision", "fp16", "--checkpoint", str(tmp_path / "half.pt")]
    losses(generated_tokens, tmp_path / "half.jsonl", *saved)
    assert read_checkpoint(tmp_path / "half.pt")["scaler"]["num_good_steps"] == 3
    train.main([*FLAGS, "--data", str(generated_tokens), "--steps", "4", "--batch", "4", *saved, "--resume"])
    assert read_checkpoint(tmp_path / "half.pt")["scaler"]["num_good_steps"] == 4


@pytest.mark.parametrize("wrapper", ["ddp", "torch_ddp"])
def test_only_the_last_micro_batch_joins_the_ranks(
    generated_tokens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrapper: str
) -> None:
    """Whatever wraps the model is told to keep quiet for all micro-batches but the last: one all-reduce of each gradient a step."""
    from torch.profiler import ProfilerActivity, profile

    be_the_only_rank(monkeypatch)
    reduced = []
    for pieces in ("1", "4"):
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            losses(generated_tokens, tmp_path / f"{pieces}.jsonl", "--data-parallel", wrapper, "--accumulate", pieces)
        reduced.append(sum(event.name == "c10d::allreduce_" for event in seen.events()))
    assert reduced[0] == reduced[1] > 0


def test_two_ranks_train_as_one_process_with_twice_the_batch(generated_tokens: Path, tmp_path: Path) -> None:
    """torchrun with two ranks of batch 2 under FSDP2 sees the windows of one process with batch 4, and has its losses up to rounding.

    The checkpoint that the two ranks save together is whole: one process goes on from it.
    """
    common = [*FLAGS, "--data", str(generated_tokens), "--log-every", "1"]
    train.main([*common, "--steps", "3", "--batch", "4", "--log-file", str(tmp_path / "one.jsonl")])
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(SOLUTIONS / "train.py")]
    files = ["--log-file", str(tmp_path / "two.jsonl"), "--checkpoint", str(tmp_path / "two.pt")]
    flags = [*common, "--steps", "3", "--batch", "2", "--data-parallel", "torch_fsdp2", *files]
    ended = subprocess.run([*torchrun, *flags], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    for event in ("step", "evaluation"):
        one, two = ([record["loss"] for record in records(tmp_path / name, event)] for name in ("one.jsonl", "two.jsonl"))
        # Means of other halves round otherwise, and three steps of Adam carry that on.
        assert two == pytest.approx(one, rel=1e-5)
    train.main([*common, "--steps", "4", "--batch", "4", "--checkpoint", str(tmp_path / "two.pt"), "--resume"])


@pytest.mark.parametrize(
    ("num_ranks", "flags"),
    [
        (2, ["--tensor", "2", "--batch", "4", "--sequence-parallel"]),
        (4, ["--tensor", "2", "--batch", "2", "--data-parallel", "ddp"]),
        (2, ["--context", "2", "--batch", "4", "--recompute", "full"]),
        (4, ["--context", "2", "--batch", "2", "--data-parallel", "ddp"]),
    ],
    ids=["sequence_parallel", "slices_of_replicas", "stripes", "stripes_of_replicas"],
)
def test_neighbours_train_as_one_process(generated_tokens: Path, tmp_path: Path, num_ranks: int, flags: list[str]) -> None:
    """Slices of a model, or of its sequences, have the losses and gradient norms of one process; every step is clipped."""
    common = [*FLAGS, "--data", str(generated_tokens), "--log-every", "1", "--steps", "3", "--clip", "0.1"]
    train.main([*common, "--batch", "4", "--log-file", str(tmp_path / "one.jsonl")])
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_ranks)]
    command = [*torchrun, str(SOLUTIONS / "train.py"), *common, *flags, "--log-file", str(tmp_path / "slices.jsonl")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    for event, fields in (("step", ("loss", "gradient_norm")), ("evaluation", ("loss",))):
        one, slices = (records(tmp_path / name, event) for name in ("one.jsonl", "slices.jsonl"))
        for field in fields:
            # Sums of other parts round otherwise, and three steps of Adam carry that on.
            assert [record[field] for record in slices] == pytest.approx([record[field] for record in one], rel=1e-4)


def test_slices_say_what_they_lack(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Too few ranks, a wrapper that cuts as well, a checkpoint, no file of the student's."""
    assert "needs a multiple of 2 ranks" in refusal(capsys, "--tensor", "2")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert "take ddp or torch_ddp" in refusal(capsys, "--tensor", "2", "--data-parallel", "torch_fsdp2")
    assert "leave --checkpoint out" in refusal(capsys, "--tensor", "2", "--checkpoint", "run.pt")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert "nothing keeps their weights equal" in refusal(capsys, "--tensor", "2")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "--tensor 2 runs your tensor_parallel.py" in refusal(capsys, "--tensor", "2")


def test_stripes_say_what_they_lack(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Too few ranks, a sequence that has no equal stripes, what cuts the model as well, what the ring doesn't go through."""
    assert "needs a multiple of 2 ranks" in refusal(capsys, "--context", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "0")
    for flags, advice in (
        (["--sequence", "30"], "into 4 equal stripes"),
        (["--tensor", "2"], "leave --tensor out"),
        (["--data-parallel", "torch_fsdp2"], "take ddp or torch_ddp"),
        (["--accumulate", "2"], "leave --attention, --compile and --accumulate out"),
        ([], "nothing keeps their weights equal"),
    ):
        assert advice in refusal(capsys, "--context", "2", *flags)


@pytest.mark.parametrize("kind", ["zero1", "zero2", "fsdp"])
def test_shards_train_as_one_process(generated_tokens: Path, tmp_path: Path, kind: str) -> None:
    """Two ranks that hold a part each have the losses and gradient norms of one process with twice the batch; every step is clipped."""
    common = [*FLAGS, "--data", str(generated_tokens), "--log-every", "1", "--steps", "3", "--clip", "0.1"]
    train.main([*common, "--batch", "4", "--log-file", str(tmp_path / "one.jsonl")])
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(SOLUTIONS / "train.py")]
    flags = [*common, "--batch", "2", "--data-parallel", kind, "--log-file", str(tmp_path / "shards.jsonl")]
    ended = subprocess.run([*torchrun, *flags], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    for event, fields in (("step", ("loss", "gradient_norm")), ("evaluation", ("loss",))):
        one, shards = (records(tmp_path / name, event) for name in ("one.jsonl", "shards.jsonl"))
        for field in fields:
            # Means of other halves round otherwise, and three steps of Adam carry that on.
            assert [record[field] for record in shards] == pytest.approx([record[field] for record in one], rel=1e-4)


def test_shards_say_what_they_lack(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks at all gradients, joins a checkpoint, passes hooks by, or goes backward several times before a step."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    for kind, flags, advice in (
        ("zero1", ["--precision", "fp16"], "take bf16 or fp32"),
        ("zero1", ["--checkpoint", "run.pt"], "leave --checkpoint out"),
        ("zero2", ["--accumulate", "2"], "take zero1 or fsdp"),
        ("fsdp", ["--compile"], "or take zero2"),
    ):
        assert advice in refusal(capsys, "--data-parallel", kind, *flags)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "runs your fsdp.py, of the assignment sharded_data_parallel" in refusal(capsys, "--data-parallel", "fsdp")


@pytest.mark.parametrize("wrapper", ["torch_ddp", "torch_fsdp2"])
def test_a_wrapper_around_one_rank_changes_nothing(
    generated_tokens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrapper: str
) -> None:
    """A group of one rank trains as no group does, to the bit: what is saved has the same names and the same values."""
    common = [*FLAGS, "--data", str(generated_tokens), "--steps", "2", "--batch", "2"]
    train.main([*common, "--checkpoint", str(tmp_path / "plain.pt")])
    be_the_only_rank(monkeypatch)
    train.main([*common, "--data-parallel", wrapper, "--checkpoint", str(tmp_path / "wrapped.pt")])
    plain, wrapped = (read_checkpoint(tmp_path / name)["model"] for name in ("plain.pt", "wrapped.pt"))
    assert plain.keys() == wrapped.keys()
    assert all(torch.equal(plain[name], wrapped[name]) for name in plain)


def test_no_flag_is_a_shortened_flag_of_torchrun() -> None:
    """torchrun reads a script's flags for abbreviations of its own before it passes them on: `--log` would end it with an error."""
    theirs = {flag for action in get_args_parser()._actions for flag in action.option_strings}
    ours = {flag for action in make_parser(None)._actions for flag in action.option_strings if flag.startswith("--") and flag != "--help"}
    assert [(our, their) for our in ours for their in theirs if their.startswith(our)] == []
