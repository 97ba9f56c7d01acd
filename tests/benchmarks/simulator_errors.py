"""Every published step beside what the simulator says of it, written to grader/design/simulator.md.

    python -m tests.benchmarks.simulator_errors
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.grader.simulator.validation import TABLES, Case, cases, kendall_tau, median_error, ordered_pairs

PAGE = Path(__file__).resolve().parents[2] / "grader/design/simulator.md"
GB = 1e9

INTRODUCTION = """\
Written by `python -m tests.benchmarks.simulator_errors`; the figures and their sources are in `tests/grader/simulator/published.yaml`.
No constant of `grader/simulator` was chosen by any of these rows: one share of the sheet for each type of GPU, from measured matrix
products; links from Calculon's A100 system; Jean Zay's network from its own all-reduce benchmark (`grader/simulator/clusters.py`). Which
effects are counted was settled with some of the rows in view: without tiles and rounds, and the traffic of summing gradients, the median
error of Megatron-LM's table 1 is 17 %, with them 9 %."""

TITLES = {
    "megatron_table_1": "Megatron-LM 2021, table 1",
    "megatron_table_2": "Megatron-LM 2021, table 2",
    "korthikanti_table_5": "Korthikanti et al. 2022, table 5",
    "bloom_sweep": "BLOOM's topology sweep",
    "llama_table_4": "Llama 3, table 4",
    "foundry_fsdp": "LLM Foundry, FSDP",
    "two_h200": "Two H200, measured here",
}

REMARKS = {
    "megatron_table_1": "",
    "megatron_table_2": """\
The ZeRO-3 rows are DeepSpeed's of 2021, which gathered parameter by parameter and reached a fraction of the network; here each layer is
gathered at once, at the network's rate, behind the layer before.""",
    "korthikanti_table_5": "",
    "bloom_sweep": """\
Ran with CUDA_LAUNCH_BLOCKING=1, without which 40 nodes and more hung (chronicles-prequel.md, "dealing with JZ hanging"): every kernel's
launch is waited for, so that small micro-batches may cost more than anything that is simulated. Most of what is out of order is so. The
network is the one that was measured there, a ninth of its sheet; with the sheet's figure the median error is 21 %. Measured memory is
nvidia-smi's: allocator, context and communication buffers are in it, and not in the simulator's. By them two of the three missed
out-of-memory rows are missed (lines 807 and 918, micro-batch 1); line 957 is far from full here.""",
    "llama_table_4": """\
Micro-batch (1) and chunks (4) aren't published. Estimated memory is above 80 GB; the published runs freed what autograd keeps.""",
    "foundry_fsdp": """\
A bound from below. Autocast's casts and kernels that aren't fused are not counted, and attention is given the matrix rate, of which
FlashAttention fell short then (25 to 40 % of the peak: Dao 2023, abstract), as long sequences show.""",
    "two_h200": """\
Launches aren't counted: on a model this small they are most of what a step does that isn't compiled.""",
}


def page() -> str:
    """The whole page, as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# How far the simulator can be believed"
    yield ""
    yield INTRODUCTION
    yield ""
    yield "| table | steps | median error | largest | out of memory, called so | ran, called out of memory |"
    yield "|---|---|---|---|---|---|"
    for table in TABLES:
        yield _summary(TITLES[table], cases(table))
    megatron = [*cases("megatron_table_1"), *cases("megatron_table_2")]
    yield _summary("both Megatron-LM tables", megatron)
    yield _summary("both, without ZeRO-3", [case for case in megatron if case.plan.zero_stage == 0])
    yield ""
    yield from _order()
    for table in TABLES:
        yield from _table(table)


def _summary(title: str, chosen: Sequence[Case]) -> str:
    ran = [case for case in chosen if case.measured_s is not None]
    fell = [case for case in chosen if case.ran_out_of_memory]
    called = sum(case.is_called_out_of_memory for case in fell)
    wrongly = sum(case.is_called_out_of_memory for case in ran)
    largest = max((case.error for case in ran), key=abs)
    told = f"{called} of {len(fell)}" if fell else "–"
    return f"| {title} | {len(ran)} | {median_error(ran):.1%} | {largest:+.1%} | {told} | {wrongly} |"


def _order() -> Iterator[str]:
    yield "Order of plans in the BLOOM sweep (the same model on the same nodes and the same day; time per sequence):"
    yield ""
    for least in (0.0, 0.02, 0.05):
        right, total = ordered_pairs(cases("bloom_sweep"), least)
        which = f"pairs that differ by more than {least:.0%}" if least else "all pairs"
        yield f"- {which}: {right} of {total} in the right order, Kendall's tau {kendall_tau(right, total):.2f}"
    yield ""
    yield "The goal of 0.7 is not reached; the remark under the table says why, as far as it is known."
    yield ""


def _table(table: str) -> Iterator[str]:
    yield f"## {TITLES[table]}"
    yield ""
    if REMARKS[table]:
        yield REMARKS[table]
        yield ""
    yield "| row | measured s | simulated s | error | compute | exposed | bubble | GB | measured GB |"
    yield "|---|---|---|---|---|---|---|---|---|"
    yield from (_row(case) for case in cases(table))
    yield ""


def _row(case: Case) -> str:
    step = case.estimate
    measured = f"{case.measured_s:.3g}" if case.measured_s is not None else "out of memory"
    error = f"{case.error:+.1%}" if case.measured_s is not None else "–"
    shares = " | ".join(f"{part / step.step_s:.0%}" for part in (step.compute_s, step.exposed_communication_s, step.bubble_s))
    held = f"{step.memory_bytes / GB:.1f}" + (", too much" if case.is_called_out_of_memory else "")
    measured_gb = f"{case.measured_bytes / GB:.1f}" if case.measured_bytes else ""
    return f"| {case.name} | {measured} | {step.step_s:.3g} | {error} | {shares} | {held} | {measured_gb} |"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(PAGE)
