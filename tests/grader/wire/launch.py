"""Runs one function of `submission/<file>.py` on real ranks over the judge's wire, as an observation would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grader.ranks.zygote import Zygote
from grader.records import Limits, Network, Outcome, Request, Tensor, TensorSpec
from grader.wire.broker import Broker
from grader.wire.endpoint import Endpoint
from grader.wire.policy import Policy

HERE = Path(__file__).parent
SUBMISSION = HERE / "submission"
PLAIN, BRISK = Network(), Limits(cpu_s=2.0)


def request_for(
    world_size: int,
    *,
    network: Network = PLAIN,
    limits: Limits = BRISK,
    inputs: dict[str, tuple[Tensor, ...]] | None = None,
    returns: dict[str, tuple[TensorSpec, ...]] | None = None,
    **parameters: Any,
) -> Request:
    """A request for the probe that calls a named function of the submission."""
    return Request(
        assignment="wire", probe="call", parameters=parameters, world_size=world_size, inputs=inputs or {}, returns=returns or {},
        network=network, limits=limits,
    )  # fmt: skip


# What is tried here behind no walls, beside the gloo that the wire is compared with, which meets in a file.
NEED_NO_WALLS = frozenset({"forks_and_leaves"})


class Ranks:
    """One zygote for many runs."""

    def __init__(self) -> None:
        self._zygote = Zygote()

    def run(self, request: Request, file: str, policy: Policy | None = None, transport: str = "") -> Outcome:
        """The outcome of `request` with `submission/<file>` as the student's code. `transport`: what the ranks themselves bring up."""
        openings: list[tuple[Any, list[Any]]] = []
        for rank in range(request.world_size):
            tensors = {name: request.input_of(name, rank) for name in request.inputs}
            order = {
                "rank": rank, "world_size": request.world_size, "transport": transport or request.network.transport, "seed": 0,
                "probe": request.probe,
                "parameters": request.parameters, "extra_bytes": request.limits.extra_bytes, "probes": str(HERE / "probes.py"),
                "submission": str(SUBMISSION), "files": [file], "given": "", "debug": "",
                "walls": request.network.transport != "none" and request.parameters.get("function") not in NEED_NO_WALLS,
                "inputs": [[name, tensor.dtype, list(tensor.shape)] for name, tensor in tensors.items()],
            }  # fmt: skip
            openings.append((order, [tensor.data for tensor in tensors.values()]))
        launch = self._zygote.launch(openings)
        try:
            endpoints = [Endpoint(each.rank, each.pid, each.pipes.line, each.pipes.log, each.opening) for each in launch.started]
            return Broker(request, endpoints, launch, policy=policy).run()
        finally:
            launch.end()

    def call(self, file: str, function: str, world_size: int, policy: Policy | None = None, **options: Any) -> Outcome:
        """Run `function(rank, world_size)` of `submission/<file>`."""
        return self.run(request_for(world_size, function=function, **options), file, policy)

    def close(self) -> None:
        """End the zygote."""
        self._zygote.close()
