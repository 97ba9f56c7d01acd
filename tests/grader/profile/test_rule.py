"""Which requests go to GPUs, and what becomes of them there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grader.errors import NotOnThisProfile
from grader.observe.profile import NCCL_HANG_S, GpuProfile
from grader.records import Assignment, Gates, Limits, Network, Request, Tensor
from tests.grader.profile.conftest import pretended

SUMS = Assignment("sums", 1, "Sums", ("sums.py",), ())
REAL = replace(pretended(2), device="cuda")


def request(**more: Any) -> Request:
    """Two ranks on the wire."""
    given = {"assignment": "sums", "probe": "total", "parameters": {}, "world_size": 2, "inputs": {}, "returns": {}, "seed": 5}
    return Request(**(given | more))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (request(world_size=3), "more ranks"),
        (request(gates=Gates("step", "g", ())), "gates"),
        (request(network=Network("wire", late=True)), "late"),
        (request(flavour="compiler"), "chips"),
        (request(inputs={"x": (Tensor("int16", (1,), b"\0\0"),)}), "dtypes"),
    ],
)
def test_what_needs_the_wire_keeps_its_cpu_verdict(asked: Request, words: str) -> None:
    """Each with the reason that the report gives."""
    with pytest.raises(NotOnThisProfile, match=words):
        REAL.on_gpu(SUMS, asked)


def test_what_a_test_or_an_assignment_says_is_the_hosts_stays_there() -> None:
    """`host` of one request, `host_only` of a whole assignment: the reason is theirs."""
    with pytest.raises(NotOnThisProfile, match="a formula"):
        REAL.on_gpu(SUMS, request(), host="a formula")
    with pytest.raises(NotOnThisProfile, match="no device"):
        REAL.on_gpu(replace(SUMS, host_only="no device"), request())


@pytest.mark.parametrize(("transport", "there"), [("wire", "nccl"), ("gloo", "nccl"), ("none", "none")])
def test_the_question_stays_the_same(transport: Any, there: str) -> None:
    """Inputs, seed, parameters and returns are the CPU's; only where it runs, and how long that may take, is not."""
    asked = request(network=Network(transport), flavour="interpreter", limits=Limits(cpu_s=2.0, extra_bytes=77))
    become = REAL.on_gpu(SUMS, asked)
    assert (become.network.transport, become.device, become.flavour) == (there, "cuda", "cuda")
    assert become.limits.idle_s == NCCL_HANG_S and become.limits.cpu_s > 2.0 and become.limits.extra_bytes == 77
    assert replace(become, network=asked.network, device="", flavour="interpreter", limits=asked.limits) == asked


def test_a_pretended_gpu_is_the_host() -> None:
    """gloo for NCCL, the interpreter for compiled kernels: the whole stage can be tried without a GPU."""
    profile: GpuProfile = pretended(2)
    become = profile.on_gpu(SUMS, request(flavour="interpreter"))
    assert (become.network.transport, become.device, become.flavour) == ("gloo", "pretend", "interpreter")
