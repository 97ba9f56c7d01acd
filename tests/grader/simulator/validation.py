"""Published steps as cases for the simulator: a model, a cluster and a plan each, what was measured, and how far off the estimate is."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml

from grader.simulator import Cluster, Model, Plan, StepEstimate, cluster, dgx_a100, estimate_step, h100, jean_zay

PUBLISHED = Path(__file__).with_name("published.yaml")
TABLES = ("megatron_table_1", "megatron_table_2", "korthikanti_table_5", "bloom_sweep", "llama_table_4", "foundry_fsdp", "h200")
RESULTS = Path(__file__).resolve().parents[2] / "benchmarks/results"
GPU_NAMES = {"h100_80gb": "H100 SXM 80GB", "a100_80gb": "A100 SXM 80GB", "a100_40gb": "A100 SXM 40GB"}
CARD_BYTES = 80 * 2**30  # of an A100 of 80 GB, context and all
ZERO_STAGE = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2}


@dataclass(frozen=True)
class Case:
    """One published row. `alike`: rows with the same are the same model on the same nodes, so that their plans can be put in order."""

    table: str
    name: str
    model: Model
    cluster: Cluster
    plan: Plan
    measured_s: float | None  # None: it ran out of memory
    ran_out_of_memory: bool = False
    alike: tuple[object, ...] = ()
    measured_bytes: float | None = None

    @property
    def estimate(self) -> StepEstimate:
        """The simulator's word."""
        return estimated(self.model, self.cluster, self.plan)

    @property
    def error(self) -> float:
        """Of the step's time, relative to the measured one."""
        assert self.measured_s is not None, "a step that ran out of memory has no time"
        return self.estimate.step_s / self.measured_s - 1

    @property
    def is_called_out_of_memory(self) -> bool:
        """The simulator's word."""
        return self.estimate.memory_bytes > self.cluster.memory_bytes


estimated = cache(estimate_step)


@cache
def cases(table: str) -> tuple[Case, ...]:
    """All rows of `table` in published.yaml; h200: of what was measured here."""
    if table == "h200":
        return tuple(_h200())
    published = yaml.safe_load(PUBLISHED.read_text("utf-8"))
    make: dict[str, Callable[..., Iterator[Case]]] = {
        "megatron_table_1": _megatron_1,
        "megatron_table_2": _megatron_2,
        "korthikanti_table_5": _korthikanti,
        "bloom_sweep": _bloom,
        "llama_table_4": _llama,
        "foundry_fsdp": lambda **row: _foundry(published["foundry_shapes"], **row),
    }
    columns = published[table]["columns"]
    return tuple(case for row in published[table]["rows"] for case in make[table](**dict(zip(columns, row, strict=True))))


def median_error(chosen: Sequence[Case]) -> float:
    """Of the absolute relative errors of all that ran."""
    return statistics.median(abs(case.error) for case in chosen if case.measured_s is not None)


def ordered_pairs(chosen: Sequence[Case], least_difference: float = 0.0) -> tuple[int, int]:
    """Of pairs of alike cases, measured apart by more than `least_difference`: how many the estimates put in the right order, and all.

    A measurement that is printed twice counts once.
    """
    right = total = 0
    once = {(case.alike, case.plan, case.measured_s): case for case in chosen if case.measured_s is not None}
    for one, other in combinations(once.values(), 2):
        measured, simulated = (_per_sequence(one)[i] / _per_sequence(other)[i] - 1 for i in (0, 1))
        if one.alike == other.alike and abs(measured) > least_difference and simulated:
            right, total = right + (measured * simulated > 0), total + 1
    return right, total


def reserve_bytes(chosen: Sequence[Case]) -> float:
    """What nvidia-smi saw beyond the simulated bytes, in the median of the rows that ran: context, communicators, the allocator's gaps."""
    held = [(case.measured_bytes, case.estimate.memory_bytes) for case in chosen if case.measured_s is not None]
    return statistics.median(measured - simulated for measured, simulated in held if measured is not None)


def kendall_tau(right: int, total: int) -> float:
    """Right pairs less wrong ones, of all."""
    return (2 * right - total) / total


def _per_sequence(case: Case) -> tuple[float, float]:
    assert case.measured_s is not None
    return case.measured_s / case.model.global_batch, case.estimate.step_s / case.model.global_batch


# --- the tables
def _gpt(layers: int, hidden: int, heads: int, vocab: int, sequence: int, batch: int, **more: Any) -> Model:
    return Model(layers, hidden, heads, heads, 4 * hidden, vocab, sequence, batch, **more)


def _megatron(layers: int, hidden: int, heads: int, batch: int) -> Model:
    return _gpt(layers, hidden, heads, 51200, 2048, batch, attention="dense", dropout=True)


def _schedule(chunks: int) -> dict[str, Any]:
    return {"schedule": "interleaved" if chunks > 1 else "1f1b", "chunks": chunks}


def _equation_3_s(model: Model, tflops_per_gpu: float, num_gpus: int) -> float:
    """Narayanan et al. 2021, equation 3: FLOPs with recomputation, over the rate that they gave."""
    h, s, layers = model.hidden_size, model.sequence, model.num_layers
    flops = 96 * model.global_batch * s * layers * h**2 * (1 + s / (6 * h) + model.vocab_size / (16 * layers * h))
    return flops / (tflops_per_gpu * 1e12 * num_gpus)


def _megatron_1(
    params_b: float, heads: int, hidden: int, layers: int, tp: int, pp: int, dp: int, batch: int, micro_batch: int, chunks: int,
    tflops_per_gpu: float,
) -> Iterator[Case]:  # fmt: skip
    model = _megatron(layers, hidden, heads, batch)
    plan = Plan(dp, tp, pp, 1, 1, micro_batch, batch // dp // micro_batch, 0, "full", overlap=False, **_schedule(chunks))
    yield Case("megatron_table_1", f"{params_b}B", model, dgx_a100(plan.num_gpus // 8), plan,
               _equation_3_s(model, tflops_per_gpu, plan.num_gpus))  # fmt: skip


def _megatron_2(
    scheme: str, params_b: float, model_parallel: int, batch: int, gpus: int, micro_batch: int, tflops_per_gpu: float
) -> Iterator[Case]:
    model = _megatron(96, 12288, 96, batch) if params_b < 200 else _megatron(105, 20480, 128, batch)
    tp, stage = (8, 0) if model_parallel > 1 else (1, 3)
    dp = gpus // model_parallel
    plan = Plan(dp, tp, model_parallel // tp, 1, 1, micro_batch, batch // dp // micro_batch, stage, "full", overlap=stage == 3)
    yield Case("megatron_table_2", f"{scheme} {params_b}B on {gpus}", model, dgx_a100(gpus // 8), plan,
               _equation_3_s(model, tflops_per_gpu, gpus))  # fmt: skip


def _korthikanti(
    model: str, heads: int, hidden: int, layers: int, pp: int, batch: int, micro_batch: int, chunks: int, full_s: float,
    selective_s: float,
) -> Iterator[Case]:  # fmt: skip
    gpt = _megatron(layers, hidden, heads, batch)
    common = {"overlap": False, "gradient_bytes": 4, **_schedule(chunks)}
    full = Plan(1, 8, pp, 1, 1, micro_batch, batch // micro_batch, 0, "full", **common)
    selective = Plan(1, 8, pp, 1, 1, micro_batch, batch // micro_batch, 0, "selective", sequence_parallel=True, **common)
    yield Case("korthikanti_table_5", f"{model}, full", gpt, dgx_a100(pp), full, full_s)
    yield Case("korthikanti_table_5", f"{model}, selective", gpt, dgx_a100(pp), selective, selective_s)


def _bloom(
    line: int, date: str, layers: int, hidden: int, heads: int, precision: str, dp: int, tp: int, pp: int, micro_batch: int, batch: int,
    zero_stage: int, memory_gb: float, step_s: float, out_of_memory: bool,
) -> Iterator[Case]:  # fmt: skip
    model = _gpt(layers, hidden, heads, 250880, 2048, batch, attention="dense", dropout=True, rotary=True)
    gradient_bytes = 6 if precision == "bf16" else 2
    plan = Plan(dp, tp, pp, 1, 1, micro_batch, batch // dp // micro_batch, zero_stage, "full", gradient_bytes=gradient_bytes, overlap=False)
    name = f"line {line}: dp {dp} tp {tp} pp {pp}, micro-batch {micro_batch}, {layers} x {hidden}, {heads} heads, {precision}"
    alike = (date, layers, hidden, heads, precision, plan.num_gpus)
    held = memory_gb and memory_gb * 2**30  # nvidia-smi's
    yield Case("bloom_sweep", name, model, jean_zay(plan.num_gpus // 8), plan, step_s, out_of_memory, alike, held)


def _llama(gpus: int, tp: int, cp: int, pp: int, dp: int, sequence: int, batch_per_dp: int, tflops_per_gpu: float) -> Iterator[Case]:
    model = Model(126, 16384, 128, 8, 53248, 128256, sequence, dp * batch_per_dp, gated=True, tied=False, bias=False, rotary=True)
    # Gradients are divided, but summed over the micro-batches first: reduced each time they alone would take longer than the step did.
    plan = Plan(dp, tp, pp, cp, 1, 1, batch_per_dp, 1, "none", sequence_parallel=True, gradient_bytes=4, **_schedule(4))
    tokens = sequence * model.global_batch
    flops = 6 * tokens * (model.num_parameters + model.num_layers * model.hidden_size * sequence)  # causal attention, counted once
    yield Case("llama_table_4", f"{gpus} GPUs, {sequence} tokens", model, h100(gpus // 8), plan, flops / (tflops_per_gpu * 1e12 * gpus))


def _foundry(
    shapes: dict[str, list[int]], model: str, sequence: int, gpus: int, gpu: str, micro_batch: int, num_micro_batches: int, precision: str,
    sharding: str, recomputes: bool, tokens_per_s_per_gpu: float, parameters: int,
) -> Iterator[Case]:  # fmt: skip
    gpt = _gpt(*shapes[model], 50368, sequence, gpus * micro_batch * num_micro_batches)
    assert abs(gpt.num_parameters / parameters - 1) < 0.001, f"{model}: the shape has {gpt.num_parameters} parameters, not {parameters}"
    plan = Plan(gpus, 1, 1, 1, 1, micro_batch, num_micro_batches, ZERO_STAGE[sharding], "full" if recomputes else "none")
    node = cluster(GPU_NAMES[gpu], gpus // 8, gbit_per_s=8 * (400 if gpu == "h100_80gb" else 200))
    name = f"{model} {gpu} x {gpus}, {sequence} tokens, {sharding}, {precision}" + (", recomputed" if recomputes else "")
    yield Case("foundry_fsdp", name, gpt, node, plan, gpt.global_batch * sequence / gpus / tokens_per_s_per_gpu)


HOST_BOUND = ", the host binds"


def _h200() -> Iterator[Case]:
    """GPT-2 355M under the *_parallel_speed.py of tests/benchmarks, and 124M on the milestone's ladder.

    "the host binds": the GPU mostly waits for launches, and no host is simulated.
    """
    steps = {name: shape["step_ms"] for name, shape in _measured("data_parallel_h200x2")["shapes"].items()}
    sharded, cut = _measured("sharded_data_parallel_h200x2"), _measured("tensor_parallel_h200x2")["ways"]
    yield _h200_case(f"355M alone, 2 sequences, eager{HOST_BOUND}", 2, Plan(), steps["eager, one channel"]["alone"][0])
    for how in ("eager", "compiled"):
        yield _h200_case(f"355M alone, 8 sequences, {how}", 8, Plan(), min(steps[how]["alone"]))
        yield _h200_case(f"355M under the course's DDP, 8 sequences each, {how}", 8, Plan(dp=2), min(steps[how]["reference"]))
    yield _h200_case("355M under the course's FSDP, 8 sequences each, eager", 8, Plan(dp=2, zero_stage=3), sharded["step_ms"]["reference"],
                     sharded["peak_bytes"]["reference"])  # fmt: skip
    for way, plan in {"alone": Plan(), "reference": Plan(tp=2), "reference_sequence": Plan(tp=2, sequence_parallel=True)}.items():
        name = {"alone": "alone", "reference": "cut for tp 2", "reference_sequence": "cut for tp 2 with sequence parallelism"}[way]
        seen = cut[way][0]
        yield _h200_case(f"355M {name}, 4 sequences, eager{HOST_BOUND}", 4, plan, seen["step_ms"], seen["peak_memory_bytes"],
                         vocab=50304, tied=False)  # fmt: skip
    yield from _ladder()


def _ladder() -> Iterator[Case]:
    """16 sequences of 1024 tokens, 64 on the last rung; from `padded_vocabulary` on 50304 words."""
    ladder = _measured("nanogpt_ladder_h200")
    rungs = {
        "bf16": ("dense attention, eager", {"attention": "dense"}),
        "fused_attention": ("eager", {}),
        "compile": ("compiled", {}),
        "padded_vocabulary": ("compiled, 50304 words", {"vocab": 50304}),
        "batch_x4": ("compiled, 50304 words", {"vocab": 50304}),
    }
    for rung, (how, more) in rungs.items():
        sequences = 64 if rung == "batch_x4" else 16
        step_ms = 1e3 * sequences * 1024 / ladder["tokens_per_s"][rung]
        yield _h200_case(f"124M alone, {sequences} sequences, {how}", sequences, Plan(), step_ms, ladder["peak_gib"][rung] * 2**30,
                         shape=(12, 768, 12), **more)  # fmt: skip


def _measured(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return document


def _h200_case(
    name: str, sequences: int, plan: Plan, step_ms: float, peak_bytes: float | None = None, *,
    shape: tuple[int, int, int] = (24, 1024, 16), vocab: int = 50257, **more: Any,
) -> Case:  # fmt: skip
    """`sequences` on each replica, in one micro-batch."""
    here = cluster("H200 SXM 141GB", 1, plan.num_gpus, gbit_per_s=8 * 400)
    model = _gpt(*shape, vocab, 1024, sequences * plan.dp, **more)
    return Case("h200", name, model, here, replace(plan, micro_batch=sequences, gradient_bytes=4), step_ms / 1e3, measured_bytes=peak_bytes)
