"""The GPU profile: which requests mean something on GPUs, and what they become there. One rule, in one place.

The inputs and seeds stay those of the CPU profile: both profiles are asked the same question.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from grader.devices import Gpu
from grader.errors import NotOnThisProfile
from grader.records import Assignment, Network, Request

NCCL_HANG_S = 10.0  # pending calls and no word for this long; a wait may spin, so CPU clocks tell nothing
STARTING_S = 60.0  # a context, a communicator and compiled kernels take seconds, more beside other gradings
NCCL_LACKS = frozenset({"int16", "complex64", "complex128"})


@dataclass(frozen=True, slots=True)
class GpuProfile:
    """Requests on `gpus`. `device` "pretend" plays all of it on the host, over gloo and the interpreter, for the grader's own tests."""

    gpus: tuple[Gpu, ...]
    device: str = "cuda"

    @property
    def flavours(self) -> tuple[str, ...]:
        """The processes that requests need, begun ahead; () as on the CPU."""
        return ("cuda",) if self.device == "cuda" else ()

    def on_gpu(self, assignment: Assignment, request: Request, *, host: str = "") -> Request:
        """The same observation on GPUs. Raises NotOnThisProfile with the reason why a case keeps its CPU verdict."""
        reason = assignment.host_only or host or self._why_not(request)
        if reason:
            raise NotOnThisProfile(reason)
        is_real, limits = self.device == "cuda", request.limits
        transport = request.network.transport
        return replace(
            request,
            device=self.device,
            flavour="cuda" if is_real else request.flavour,
            network=Network("none" if transport == "none" else "nccl" if is_real else "gloo", rendezvous=True, late=False),
            limits=replace(
                limits,
                cpu_s=max(limits.cpu_s, STARTING_S),
                wall_s=max(limits.wall_s, STARTING_S),
                idle_s=NCCL_HANG_S if is_real else limits.idle_s,
            ),
        )

    def _why_not(self, request: Request) -> str:
        network = request.network
        if request.flavour == "compiler":
            return "its kernels are compiled for chips that are not here"
        if request.gates is not None:
            return "gates are the wire's: backward waits for what the judge has seen"
        if network.late:
            return "late delivery is the wire's"
        if request.world_size > len(self.gpus):
            return "it needs more ranks than there are GPUs"
        if network.transport != "none" and any(t.dtype in NCCL_LACKS for tensors in request.inputs.values() for t in tensors):
            return "NCCL does not carry its dtypes"
        return ""
