"""The simulator against published steps. Nothing in it was chosen by them; grader/design/simulator.md has all errors, row by row."""

from __future__ import annotations

import pytest

from grader.simulator import GPUS
from lm.hardware import HARDWARE
from tests.benchmarks.simulator_errors import PAGE, page
from tests.grader.simulator.validation import cases, kendall_tau, median_error, ordered_pairs

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


def test_bloom_steps_are_met_within_15_percent_in_the_median() -> None:
    """101 measured steps of the sweep that chose BLOOM's topology."""
    assert sum(case.measured_s is not None for case in cases("bloom_sweep")) == 101
    assert median_error(cases("bloom_sweep")) <= 0.15


def test_the_order_of_blooms_plans_is_told_better_than_by_chance() -> None:
    """The goal is a tau of 0.7 and isn't reached: small micro-batches cost more there than anything that is simulated here.

    The sweep ran with CUDA_LAUNCH_BLOCKING=1, without which 40 nodes hung: each kernel's launch is waited for. 0.5 is what may not be lost.
    """
    right, total = ordered_pairs(cases("bloom_sweep"))
    assert total > 250
    assert kendall_tau(right, total) >= 0.5


def test_no_step_of_the_bloom_sweep_that_ran_is_called_out_of_memory() -> None:
    """And of the six that didn't run three are; the others miss the limit by what allocator and communication buffers take."""
    called = [case for case in cases("bloom_sweep") if case.is_called_out_of_memory]
    assert all(case.ran_out_of_memory for case in called)
    assert {case.name.split(":")[0] for case in called} == {"line 793", "line 806", "line 917"}


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
    """grader/design/simulator.md is what `python -m tests.benchmarks.simulator_errors` writes."""
    assert PAGE.read_text("utf-8") == page()


def test_gpus_are_those_of_the_given_table() -> None:
    """Peaks, memory and links have one truth: lm/hardware.py, whose import costs a torch that the judge's side does without."""
    for name, gpu in GPUS.items():
        given = HARDWARE[name]
        assert (gpu.peak_flops_per_s, gpu.memory_bytes) == (given.peak_flops_per_s["fp16"], given.memory_bytes), name
        assert (gpu.memory_bytes_per_s, gpu.link_bytes_per_s) == (given.memory_bytes_per_s, given.link_bytes_per_s), name
        assert 0.5 < gpu.share < 1, name
