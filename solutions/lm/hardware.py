"""What the machine can do at most: the denominators of every MFU, roofline and link figure in the course.

All peaks are DENSE. Product pages of Hopper and later print the figure with 2:4 structured sparsity, twice as high and out of reach for
a dense model: whoever divides by it reports half of his MFU. It is kept here under the name of that trap, never to be divided by.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

T, G = 1e12, 1e9

MEASURED_TABLES = "stas00/ml-engineering compute/accelerator and network READMEs (dense tables)"
A100_SHEET = "NVIDIA A100 datasheet table"
T4_SHEET = "NVIDIA T4 datasheet, as cited in Lightning's fabric/utilities/throughput.py"
H100_WHITEPAPER = "NVIDIA H100 whitepaper (dense) and product page (sparse), as transcribed; " + MEASURED_TABLES


@dataclass(frozen=True)
class Hardware:
    """One device. Bandwidths of a link are per direction, all lanes of one device together."""

    name: str
    device_names: tuple[str, ...]  # exactly as torch.cuda.get_device_name() prints them
    peak_flops_per_s: dict[str, float]  # by precision; one that the device cannot speed up is absent
    sparse_bf16_headline_flops_per_s: float | None  # the trap; None where no sparsity exists
    memory_bytes: float
    memory_bytes_per_s: float
    link: str
    link_bytes_per_s: float
    source: str


def _peaks(fp32: float, tf32: float | None, fp16: float, bf16: float | None, fp8: float | None = None) -> dict[str, float]:
    """Return the peaks in FLOP/s of those that exist, from TFLOP/s."""
    peaks = {"fp32": fp32, "tf32": tf32, "fp16": fp16, "bf16": bf16, "fp8": fp8}
    return {precision: peak * T for precision, peak in peaks.items() if peak is not None}


A100_PEAKS = _peaks(19.5, 156, 312, 312)

# fmt: off
HARDWARE: dict[str, Hardware] = {device.name: device for device in (
    Hardware("T4", ("Tesla T4",), _peaks(8.1, None, 65, None), None, 16 * G, 320 * G, "PCIe 3.0 x16", 16 * G, T4_SHEET),
    Hardware("A100 SXM 40GB", ("NVIDIA A100-SXM4-40GB",), A100_PEAKS, 624 * T, 40 * G, 1555 * G, "NVLink 3", 300 * G,
             A100_SHEET + "; memory from cli99/llm-analysis a100-sxm-40gb.json"),
    Hardware("A100 SXM 80GB", ("NVIDIA A100-SXM4-80GB",), A100_PEAKS, 624 * T, 80 * G, 2039 * G, "NVLink 3", 300 * G, A100_SHEET),
    Hardware("A100 PCIe 80GB", ("NVIDIA A100 80GB PCIe",), A100_PEAKS, 624 * T, 80 * G, 1935 * G, "PCIe 4.0 x16", 32 * G, A100_SHEET),
    Hardware("H100 SXM 80GB", ("NVIDIA H100 80GB HBM3",), _peaks(67, 494.7, 989.4, 989.4, 1978.9), 1978.9 * T, 80 * G, 3350 * G,
             "NVLink 4", 450 * G, H100_WHITEPAPER),
    Hardware("H100 PCIe 80GB", ("NVIDIA H100 PCIe",), _peaks(51, 378, 756, 756, 1513), 1513 * T, 80 * G, 2000 * G,
             "PCIe 5.0 x16", 64 * G, MEASURED_TABLES + "; Lightning's throughput.py"),
    Hardware("H200 SXM 141GB", ("NVIDIA H200",), _peaks(67, 494.5, 989, 989, 1979), 1979 * T, 141 * G, 4800 * G,
             "NVLink 4", 450 * G, MEASURED_TABLES),
    Hardware("B200 SXM", ("NVIDIA B200",), _peaks(80, 1125, 2250, 2250, 4500), 4500 * T, 180 * G, 8000 * G,
             "NVLink 5", 900 * G, MEASURED_TABLES + ", from the DGX B200 datasheet"),
)}
# fmt: on


def _fastest_s(action: Callable[[], object], repeats: int = 5) -> float:
    """Return the shortest of several timed calls, after one untimed."""
    durations = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        action()
        durations.append(time.perf_counter() - start)
    return min(durations[1:])


def measured_cpu(precision: str = "fp32", size: int = 1024) -> Hardware:
    """Return this CPU as measured now, in about a second: CPUs have no table, their peak depends on clock, cores and library.

    Peak: a size³ matrix product in `precision` (fp32, bf16 or fp16). Bandwidth: a copy of 64 MB, read and write both counted.
    """
    a = torch.randn(size, size).to({"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32))
    flops_per_s = 2 * size**3 / _fastest_s(lambda: a @ a)
    source_bytes = torch.empty(64_000_000, dtype=torch.uint8).fill_(1)
    copy = torch.empty_like(source_bytes)
    bytes_per_s = 2 * source_bytes.numel() / _fastest_s(lambda: copy.copy_(source_bytes))
    threads = torch.get_num_threads()
    return Hardware(
        f"CPU, {threads} threads", (), {precision: flops_per_s}, None, 0.0, bytes_per_s, "none", 0.0, "measured on this machine"
    )


def hardware_here(device: torch.device, precision: str) -> Hardware | None:
    """Return the row of the device at hand, or None for a GPU that isn't in the table (a slice of one isn't either)."""
    if device.type == "cpu":
        return measured_cpu(precision)
    name = torch.cuda.get_device_name(device)
    return next((row for row in HARDWARE.values() if name in row.device_names), None)
