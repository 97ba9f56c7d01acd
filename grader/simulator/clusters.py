"""Clusters by name, from published figures. Nothing here was chosen to meet a measured step.

One efficiency for each type of GPU: the highest rate that was measured of its 16-bit matrix products, as a share of its peak
(stas00/ml-engineering, compute/accelerator/README.md, "maximum achievable matmul FLOPS"). It is applied to the sheet's memory bandwidth
too: it says how much of its sheet a GPU gives. Peaks, memory and links are lm.hardware's, to which a test holds them; multiprocessors are
those of NVIDIA's whitepapers. Memory counts in GB as printed: what a card has beyond that goes to context, communicators and gaps.

Links: the share of their bandwidth that is reached, and latencies, as in calculon-ai/calculon, systems/a100_80g.json (NVLink 0.65 and
10 us, network 0.9 and 20 us), for all types; where a network was measured, that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from grader.simulator.records import Cluster

T, G = 1e12, 1e9
LINK_SHARE, NETWORK_SHARE = 0.65, 0.9
LINK_LATENCY_S, NETWORK_LATENCY_S = 10e-6, 20e-6
GBIT = G / 8
# Of a host in PyTorch's eager mode, for each kernel: GPT-2 355M with two sequences on an H200, which the host binds, took 37.98 ms for 51
# kernels in each of 24 layers and 24 beside them (tests/benchmarks/results/data_parallel_h200x2.json, "eager, one channel", alone).
HOST_S = 37.98e-3 / (24 * 51 + 24)


@dataclass(frozen=True, slots=True)
class Gpu:
    """A sheet's figures, and the share of them that is reached."""

    peak_flops_per_s: float  # dense, 16-bit
    share: float
    memory_bytes: float
    memory_bytes_per_s: float
    link_bytes_per_s: float  # per direction
    num_processors: int


GPUS: dict[str, Gpu] = {
    "A100 SXM 80GB": Gpu(312 * T, 271.2 / 312, 80 * G, 2039 * G, 300 * G, 108),
    "A100 SXM 40GB": Gpu(312 * T, 271.2 / 312, 40 * G, 1555 * G, 300 * G, 108),
    "H100 SXM 80GB": Gpu(989.4 * T, 794.5 / 989.4, 80 * G, 3350 * G, 450 * G, 132),
    "H200 SXM 141GB": Gpu(989 * T, 794.5 / 989.4, 141 * G, 4800 * G, 450 * G, 132),  # the H100's compute, and so its share
    "B200 SXM": Gpu(2250 * T, 1745.0 / 2250, 180 * G, 8000 * G, 900 * G, 148),
    "T4": Gpu(65 * T, 252.9 / 312, 16 * G, 320 * G, 16 * G, 40),  # nobody's table: the share of the A100 on PCIe
}


def cluster(gpu: str, num_nodes: int, gpus_per_node: int = 8, *, gbit_per_s: float) -> Cluster:
    """`gbit_per_s`: what a node's network adapters carry together, per direction."""
    one = GPUS[gpu]
    return Cluster(
        num_nodes, gpus_per_node, gpu, one.share * one.peak_flops_per_s, one.memory_bytes, one.share * one.memory_bytes_per_s,
        LINK_LATENCY_S, LINK_SHARE * one.link_bytes_per_s,
        NETWORK_LATENCY_S, NETWORK_SHARE * gbit_per_s * GBIT / gpus_per_node, one.num_processors,
    )  # fmt: skip


def dgx_a100(num_nodes: int) -> Cluster:
    """8 A100-80GB and 8 adapters of 200 Gbit/s to a node: Narayanan et al. 2021, section 5.1."""
    return cluster("A100 SXM 80GB", num_nodes, gbit_per_s=8 * 200)


def jean_zay(num_nodes: int) -> Cluster:
    """8 A100-80GB to a node, and a network as it was measured there before BLOOM was trained, not as it was sold.

    4 Omni-Path adapters of 100 Gbit/s. An all-reduce over 4 nodes reached a bus bandwidth of 40.49 Gbit/s, by two channels that both left
    a node by one adapter and entered it by another, as its log says (bigscience, experiments/bandwidth, all_reduce_bench-a100-n4.txt,
    "via NET/IB/3" and "via NET/IB/1"): that is what one of the four carries. And there the host waited for each kernel.
    """
    adapters, measured = 4, 40.49
    waiting = cluster("A100 SXM 80GB", num_nodes, gbit_per_s=adapters * measured / NETWORK_SHARE)
    return replace(waiting, launch_s=HOST_S)


def h100(num_nodes: int) -> Cluster:
    """8 H100 and 400 Gbit/s for each: Llama Team 2024, section 3.3.1."""
    return cluster("H100 SXM 80GB", num_nodes, gbit_per_s=8 * 400)


def slow_network(num_nodes: int) -> Cluster:
    """8 A100-80GB to a node, and all of them behind one 100 Gbit/s Ethernet."""
    return cluster("A100 SXM 80GB", num_nodes, gbit_per_s=100)


def two_t4() -> Cluster:
    """Two T4 of one machine, as notebooks lend them; the network is never used."""
    return cluster("T4", 1, 2, gbit_per_s=10)
