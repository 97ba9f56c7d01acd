"""The hardware table gives dense peaks, names the sparse ones as the trap they are, and never guesses."""

from __future__ import annotations

import pytest
import torch

from lm.hardware import HARDWARE, Hardware, hardware_here, measured_cpu


@pytest.mark.parametrize("row", HARDWARE.values(), ids=HARDWARE)
def test_peaks_are_dense_and_the_sparse_headline_is_twice_as_high(row: Hardware) -> None:
    """The 2:4 sparse figure is double the dense one, so a table with a sparse peak in it would show here."""
    if row.sparse_bf16_headline_flops_per_s is not None:
        assert row.sparse_bf16_headline_flops_per_s / row.peak_flops_per_s["bf16"] == pytest.approx(2, rel=1e-3)
    assert row.source


@pytest.mark.parametrize("row", HARDWARE.values(), ids=HARDWARE)
def test_narrower_numbers_are_never_slower(row: Hardware) -> None:
    """fp32 < TF32 < fp16 = bf16 < fp8 wherever they exist, and tensor cores multiply in halving steps."""
    peaks = [row.peak_flops_per_s[precision] for precision in ("fp32", "tf32", "fp16", "fp8") if precision in row.peak_flops_per_s]
    assert peaks == sorted(peaks)
    if "bf16" in row.peak_flops_per_s:
        assert row.peak_flops_per_s["bf16"] == row.peak_flops_per_s["fp16"] == pytest.approx(2 * row.peak_flops_per_s["tf32"], rel=1e-3)


def test_a_t4_has_neither_bf16_nor_tf32() -> None:
    """Turing multiplies fp16 only; a course that wants bf16 on it must ask for another way."""
    assert set(HARDWARE["T4"].peak_flops_per_s) == {"fp32", "fp16"}


@pytest.mark.parametrize(
    ("device_name", "row_name"),
    [("Tesla T4", "T4"), ("NVIDIA H200", "H200 SXM 141GB"), ("NVIDIA H200 MIG 1g.18gb", None), ("NVIDIA GB200", None)],
)
def test_only_a_device_of_the_table_gets_a_peak(monkeypatch: pytest.MonkeyPatch, device_name: str, row_name: str | None) -> None:
    """A slice of a GPU, or a relative of it, has another peak: better none than a wrong one."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: device_name)
    row = hardware_here(torch.device("cuda", 0), "bf16")
    assert (row.name if row else None) == row_name


def test_a_cpus_peak_is_measured_and_within_reason() -> None:
    """A small measurement gives a peak that any CPU reaches and none exceeds, and says that it was measured here."""
    row = measured_cpu(size=128)
    assert 1e7 < row.peak_flops_per_s["fp32"] < 1e15
    assert 1e7 < row.memory_bytes_per_s < 1e14
    assert row.source == "measured on this machine"
