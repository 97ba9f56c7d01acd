"""The simulator against published steps. Nothing in it was chosen by them; grader/design/simulator.csv has all errors, row by row."""

from __future__ import annotations

import statistics

import pytest

from grader.simulator import GPUS
from lm.hardware import HARDWARE
from tests.benchmarks.simulator_errors import PAGE, ROWS, page, rows
from tests.grader.simulator.validation import CARD_BYTES, Case, cases, kendall_tau, median_error, ordered_pairs, reserve_bytes

MEGATRON = (*cases("megatron_table_1"), *cases("megatron_table_2"))


def test_the_megatron_tables_are_met_within_15_percent_in_the_median() -> None:
    """Tables 1 and 2 of Narayanan et al. 2021, all rows together, and each table's own scheme alone."""
    assert len(MEGATRON) == 22
    assert median_error(MEGATRON) <= 0.15
    assert median_error([case for case in MEGATRON if case.plan.zero_stage == 0]) <= 0.15
    assert max(abs(case.error) for case in MEGATRON if case.plan.zero_stage == 0) <= 0.15


def test_selective_and_full_recomputation_are_met_too() -> None:
    """Table 5 of Korthikanti et al. 2022: eight steps, each within 10 %, and every gain of the paper is one here."""
    assert max(abs(case.error) for case in cases("korthikanti_table_5")) <= 0.10
    pairs = cases("korthikanti_table_5")
    for full, selective in zip(pairs[::2], pairs[1::2], strict=True):
        assert full.measured_s and selective.measured_s
        assert full.estimate.step_s / selective.estimate.step_s == pytest.approx(full.measured_s / selective.measured_s, rel=0.1)


def line(number: int) -> Case:
    """A row of the BLOOM sweep."""
    (found,) = [case for case in cases("bloom_sweep") if case.name.startswith(f"line {number}:")]
    return found


def test_bloom_steps_are_met_within_20_percent_in_the_median() -> None:
    """101 measured steps of the sweep that chose BLOOM's topology; those on one node, without a network, fall short by as much."""
    assert sum(case.measured_s is not None for case in cases("bloom_sweep")) == 101
    assert median_error(cases("bloom_sweep")) <= 0.20


def test_what_a_bloom_step_costs_beside_its_sequences_is_met() -> None:
    """Four batch sizes of one plan on one day: the line through them, at no sequences, is bubble, gradients and optimizer."""
    rows = [line(number) for number in (867, 868, 869, 870)]
    sequences = [row.model.global_batch for row in rows]
    measured, simulated = (
        statistics.linear_regression(sequences, seconds).intercept
        for seconds in ([row.measured_s for row in rows], [row.estimate.step_s for row in rows])
    )
    assert simulated == pytest.approx(measured, rel=0.2)


def test_the_order_of_blooms_plans_is_told_far_better_than_by_chance() -> None:
    """The goal is a tau of 0.7: reached for pairs that differ by more than 2 %, which is less than the same plan does on one day."""
    for least, tau in ((0.0, 0.65), (0.02, 0.7), (0.05, 0.7)):
        right, total = ordered_pairs(cases("bloom_sweep"), least)
        assert total > 180
        assert kendall_tau(right, total) >= tau


def test_no_step_of_the_bloom_sweep_that_ran_is_called_out_of_memory() -> None:
    """And of the six that didn't run four are."""
    called = [case for case in cases("bloom_sweep") if case.is_called_out_of_memory]
    assert all(case.ran_out_of_memory for case in called)
    assert {case.name.split(":")[0] for case in called} == {"line 793", "line 806", "line 807", "line 917"}


def test_what_rows_that_ran_held_beside_tensors_explains_another_out_of_memory() -> None:
    """With the reserve that nvidia-smi showed of others, 918 is over its card too, and none that ran; 957 isn't."""
    reserve = reserve_bytes(cases("bloom_sweep"))
    over = {case.name: case.ran_out_of_memory for case in cases("bloom_sweep") if case.estimate.memory_bytes + reserve > CARD_BYTES}
    assert all(over.values())
    assert line(918).name in over and line(957).name not in over


def test_what_is_compiled_takes_the_simulated_time_on_an_h200() -> None:
    """GPT-2 124M within 10 %; eager steps, whose kernels aren't fused, take longer; what is held is met within a fifth or so."""
    small = [case for case in cases("h200") if case.name.startswith("124M") and "compiled" in case.name]
    assert len(small) == 3 and max(abs(case.error) for case in small) <= 0.10
    eager = [case for case in cases("h200") if "eager" in case.name]
    assert len(eager) == 9 and max(case.error for case in eager) < -0.3
    fused = [case for case in cases("h200") if "dense" not in case.name]
    held = [case.estimate.memory_bytes / case.measured_bytes for case in fused if case.measured_bytes]
    assert len(held) == 8 and min(held) > 0.79 and max(held) < 1.2


def test_llama_3s_steps_are_met_within_25_percent() -> None:
    """Three layouts of 405B on up to 16384 GPUs; their memory isn't (the published runs freed activations by hand)."""
    assert max(abs(case.error) for case in cases("llama_table_4")) <= 0.25


@pytest.mark.parametrize("gpu", ["a100_80gb", "a100_40gb", "h100_80gb"])
def test_fully_sharded_steps_are_a_bound_from_below(gpu: str) -> None:
    """LLM Foundry's runs: all but one slower than simulated, most with long sequences, whose attention is given the full rate."""
    chosen = [case for case in cases("foundry_fsdp") if gpu in case.name]
    assert len(chosen) > 25
    assert sum(case.error < 0 for case in chosen) >= len(chosen) - 1
    short = [case for case in chosen if case.model.sequence <= 2048]
    assert median_error(short) <= 0.40


def test_the_page_of_errors_is_up_to_date() -> None:
    """grader/design/simulator.md and its rows are what `python -m tests.benchmarks.simulator_errors` writes."""
    assert (PAGE.read_text("utf-8"), ROWS.read_text("utf-8")) == (page(), rows())


def test_gpus_are_those_of_the_given_table() -> None:
    """Peaks, memory and links have one truth: lm/hardware.py, whose import costs a torch that the judge's side does without."""
    for name, gpu in GPUS.items():
        given = HARDWARE[name]
        assert (gpu.peak_flops_per_s, gpu.memory_bytes) == (given.peak_flops_per_s["fp16"], given.memory_bytes), name
        assert (gpu.memory_bytes_per_s, gpu.link_bytes_per_s) == (given.memory_bytes_per_s, given.link_bytes_per_s), name
        assert 0.5 < gpu.share < 1, name
