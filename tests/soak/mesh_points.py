"""What many_gpus measures: a model, a way to train it and a layout of ranks; and what the simulator says of such a step."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "solutions"))

from grader.simulator import GPUS, Model, Plan, cluster, estimate_step
from lm.gpt import PRESETS, GPTConfig
from lm.hardware import HARDWARE

SCALING_WAYS = ("course_ddp", "torch_ddp", "course_fsdp", "torch_fsdp2")
TINY, TINY_TOKENS = "tiny", 16  # what is trained where GPUs are only pretended
PRETENDED = "H200 SXM 141GB"
# Of so many GPUs: (tp, pp, dp). One axis alone stands beside two and three, so that a mesh can be seen to cost more or less.
LAYOUTS = {
    2: ((2, 1, 1), (1, 2, 1), (1, 1, 2)),
    4: ((2, 1, 2), (2, 2, 1), (1, 2, 2), (4, 1, 1)),
    8: ((2, 1, 4), (4, 1, 2), (2, 2, 2), (8, 1, 1)),
}


@dataclass(frozen=True)
class Point:
    """One measured step."""

    step: str  # of many_gpus: scaling, mesh
    preset: str
    way: str  # alone, one of SCALING_WAYS, mesh
    plan: Plan
    tokens: int  # of a sequence

    @property
    def name(self) -> str:
        """Unlike any other point's."""
        layout = " ".join(f"{axis}{size}" for axis in ("tp", "pp", "dp") if (size := getattr(self.plan, axis)) > 1)
        return f"{self.step} {self.preset} {self.way} {layout or 'one rank'}"

    @property
    def config(self) -> GPTConfig:
        """The model."""
        return PRESETS[self.preset]

    @property
    def sequences(self) -> int:
        """Of a replica and step."""
        return self.plan.micro_batch * self.plan.num_micro_batches


def points(steps: Sequence[str], num_gpus: int, pretend: bool) -> list[Point]:
    """The points of these steps on so many GPUs: a power of two up to eight."""
    found: list[Point] = []
    if "scaling" in steps:
        found += _scaling(num_gpus, pretend)
    if "mesh" in steps:
        found += (each for preset in ("gpt2-355m", "gpt3-1.3b") for each in _mesh(preset, num_gpus, pretend))
    return list(dict.fromkeys(found))  # both models are the same where GPUs are pretended


def _scaling(num_gpus: int, pretend: bool) -> Iterator[Point]:
    """Weak scaling: every GPU has its eight sequences, however many they are."""
    preset, tokens, sequences = _size("gpt2-355m", pretend)
    yield Point("scaling", preset, "alone", Plan(micro_batch=sequences, gradient_bytes=4), tokens)
    for num_ranks in (n for n in (1, 2, 4, 8) if n <= num_gpus):
        for way in SCALING_WAYS:
            plan = Plan(dp=num_ranks, micro_batch=sequences, zero_stage=3 if "fsdp" in way else 0, gradient_bytes=4)
            yield Point("scaling", preset, way, plan, tokens)


def _mesh(model: str, num_gpus: int, pretend: bool) -> Iterator[Point]:
    """The course's tensor, pipeline and data parallelism together, in all layouts of all GPUs."""
    preset, tokens, sequences = _size(model, pretend)
    for tp, pp, dp in LAYOUTS.get(num_gpus, ()):
        if pretend and PRESETS[preset].num_kv_heads % tp:
            continue
        parts = 4 if pp > 1 else 1  # micro-batches; one all-reduce when the last is done, and then nothing hides it
        plan = Plan(dp, tp, pp, micro_batch=sequences // parts, num_micro_batches=parts, gradient_bytes=4, overlap=pp == 1)
        yield Point("mesh", preset, "mesh", plan, tokens)


def _size(model: str, pretend: bool) -> tuple[str, int, int]:
    """Preset, tokens of a sequence, sequences of a replica and step: as many tokens for both models."""
    if pretend:
        return TINY, TINY_TOKENS, 4
    tokens = PRESETS[model].max_tokens
    return model, tokens, 8192 // tokens


def predicted(point: Point, device_name: str, pretend: bool) -> dict[str, Any] | None:
    """The simulator's word on the step, in ms and bytes; None of a GPU that it has no figures of.

    It knows no host and no kernel that isn't fused: eager steps take longer (grader/design/simulator.md).
    """
    known = [name for name, row in HARDWARE.items() if device_name in row.device_names]
    gpu = PRETENDED if pretend else known[0] if known and known[0] in GPUS else None
    if gpu is None:
        return None
    config = point.config
    model = Model(
        config.num_layers, config.hidden_size, config.num_heads, config.num_kv_heads, config.mlp_size, config.vocab_size, point.tokens,
        point.plan.global_batch, tied=config.tied, bias=config.bias,
    )  # fmt: skip
    told = estimate_step(model, cluster(gpu, 1, point.plan.num_gpus, gbit_per_s=8 * 400), point.plan)  # one node: no network is used
    parts_s = {"step": told.step_s, "compute": told.compute_s, "exposed": told.exposed_communication_s, "bubble": told.bubble_s}
    return {f"{part}_ms": round(1e3 * seconds, 3) for part, seconds in parts_s.items()} | {"memory_bytes": round(told.memory_bytes)}
