"""The milestone's ladder as data: changes, each applied to what the last one left, and the plan that says how large and how often."""

from __future__ import annotations

import dataclasses
import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch

from lm.gpt import PRESETS, GPTConfig
from lm.runlog import Run

PADDED_MULTIPLE = 128
GPT2_SHORT_OF_A_MULTIPLE = 47  # 50304 - 50257


@dataclass(frozen=True)
class Plan:
    """What is asked for. None: as the machine suggests."""

    preset: str
    micro_batch: int  # sequences of the first rung
    growth: int  # how many times as many the larger batch has
    warmup: int
    steps: int
    world_size: int  # ranks of the runs after the ladder
    sixteen: str  # bf16, or fp16 where there is none
    budget_s: float  # no run is begun later
    num_threads: int  # of a rank on a CPU
    patience_s: float  # for the steps of one run


# A change takes the run below and returns the next one, or the reason why it cannot be had.
Change = Callable[[Run, Plan, torch.device], "Run | str"]


def default_plan(device: torch.device, **chosen: object) -> Plan:
    """Return the plan for this machine, but for what was chosen (not None)."""
    on_gpu = device.type == "cuda"
    num_gpus = torch.cuda.device_count() if on_gpu else 0
    world_size = min(num_gpus, 8) if on_gpu else 2
    has_bf16 = not on_gpu or torch.cuda.get_device_capability(device) >= (8, 0)
    usual = {
        "preset": "gpt2-124m" if on_gpu else "1m",
        "micro_batch": 16 if on_gpu else 2,
        "growth": 4 if on_gpu else 2,
        "warmup": 5 if on_gpu else 3,
        "steps": 15 if on_gpu else 7,
        "world_size": world_size,
        "sixteen": "bf16" if has_bf16 else "fp16",
        "budget_s": 450.0 if on_gpu else 240.0,
        "patience_s": 60.0 if on_gpu else 8.0,
    }
    asked = usual | {name: value for name, value in chosen.items() if value is not None}
    # Every rank has the same share of a CPU in every run: one rank with all cores would be no base for two that divide them.
    num_threads = max(1, (os.cpu_count() or 1) // max(1, int(asked["world_size"])))  # type: ignore[call-overload]
    return Plan(**asked, num_threads=num_threads)  # type: ignore[arg-type]


def first_config(preset: str) -> GPTConfig:
    """Return the preset with dense attention and a vocabulary as awkward as GPT-2's."""
    vocab_size = PRESETS[preset].vocab_size
    if vocab_size % PADDED_MULTIPLE == 0:
        vocab_size -= GPT2_SHORT_OF_A_MULTIPLE
    return dataclasses.replace(PRESETS[preset], attention="dense", vocab_size=vocab_size)


def first_run(plan: Plan) -> Run:
    """Return the ladder's foot: everything in fp32, nothing fused, nothing compiled."""
    config = first_config(plan.preset)
    return Run("fp32", None, config, "fp32", False, "none", config.max_tokens, plan.micro_batch, 1, "none", 1, (), 0)


def to_tf32(run: Run, plan: Plan, device: torch.device) -> Run | str:
    """Let fp32 products be made of TF32 factors."""
    if device.type == "cpu":
        return "a CPU has no TF32"
    if torch.cuda.get_device_capability(device) < (8, 0):
        return f"{torch.cuda.get_device_name(device)} has no TF32: Ampere and later have"
    return dataclasses.replace(run, precision="tf32")


def to_sixteen(run: Run, plan: Plan, device: torch.device) -> Run | str:
    """Cast products to 16 bits: bf16, or fp16 with the student's loss scaler."""
    return dataclasses.replace(run, precision=plan.sixteen)


def fuse_attention(run: Run, plan: Plan, device: torch.device) -> Run | str:
    """Take a kernel that never holds the T×T scores."""
    return dataclasses.replace(run, config=dataclasses.replace(run.config, attention="sdpa"))


def unfuse_attention(run: Run, plan: Plan, device: torch.device) -> Run | str:
    """Take dense attention again: what compilation alone can do about it."""
    if device.type == "cpu":
        return "compiling takes most of a CPU's time here, and this comparison is about a GPU's memory traffic"
    return dataclasses.replace(run, config=dataclasses.replace(run.config, attention="dense"))


def compile_model(run: Run, plan: Plan, device: torch.device) -> Run | str:
    """Compile the model."""
    return dataclasses.replace(run, compiled=True)


def pad_vocabulary(run: Run, plan: Plan, device: torch.device) -> Run | str:
    """Round the vocabulary up, so that every row of the head begins where tensor cores like it."""
    vocab_size = -(-run.config.vocab_size // PADDED_MULTIPLE) * PADDED_MULTIPLE
    return dataclasses.replace(run, config=dataclasses.replace(run.config, vocab_size=vocab_size))


def enlarge_batch(run: Run, plan: Plan, device: torch.device) -> Run | str:
    """Give every rank more sequences."""
    return dataclasses.replace(run, micro_batch=run.micro_batch * plan.growth)


def narrow_stream(run: Run, plan: Plan, device: torch.device) -> Run | str:
    """Let the blocks add up in 16 bits: half of the bytes that norms and sums read and write. It rounds more; the losses show how much."""
    if run.precision != "bf16":
        return "for bf16 only: fp32 has no narrow parts, and fp16's range may be too small for the sum of all layers"
    return dataclasses.replace(run, config=dataclasses.replace(run.config, stream="bf16"))


def accumulate(run: Run, plan: Plan, device: torch.device) -> Run | str:
    """Take the same batch in pieces, one after the other."""
    if run.micro_batch % plan.growth:
        return f"a batch of {run.micro_batch} can't be cut into {plan.growth} equal pieces"
    return dataclasses.replace(run, micro_batch=run.micro_batch // plan.growth, num_micro_batches=plan.growth)


def on_ranks(kind: str) -> Change:
    """Return the change from one rank to several, kept equal by `kind`."""

    def spread(run: Run, plan: Plan, device: torch.device) -> Run | str:
        if plan.world_size < 2:
            return "there is one device: gradients are accumulated instead"
        if kind == "torch_fsdp2" and run.precision == "fp16":
            return "the loss scaler looks at whole gradients, and FSDP2 keeps a part on each rank"
        return dataclasses.replace(run, data_parallel=kind, world_size=plan.world_size)

    return spread


# name, the change, what it is applied to: the rung before it, the ladder's top, or a rung by name.
LADDER: tuple[tuple[str, Change], ...] = (
    ("tf32", to_tf32),
    ("sixteen", to_sixteen),
    ("fused_attention", fuse_attention),
    ("compiled", compile_model),
    ("padded_vocabulary", pad_vocabulary),
    ("larger_batch", enlarge_batch),
    ("narrow_stream", narrow_stream),
)
AFTERWARDS: tuple[tuple[str, str, Change], ...] = (
    ("ddp", "top", on_ranks("ddp")),
    ("torch_ddp", "top", on_ranks("torch_ddp")),
    ("torch_fsdp2", "top", on_ranks("torch_fsdp2")),
    ("accumulated", "top", accumulate),
    ("compiled_dense_attention", "compiled", unfuse_attention),
)


def is_kept(run: Run, base: Run) -> bool:
    """Say whether the ladder goes on from here: not from a precision that the device makes more slowly, as CPUs without bf16 units do."""
    return run.precision == base.precision or statistics.median(run.step_s) <= statistics.median(base.step_s)
