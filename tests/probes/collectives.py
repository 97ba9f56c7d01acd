"""What runs beside a submission to `collectives`: it drives the functions and reports what they did. No opinions, no expected values.

In the first four probes each input is the memory of one tensor, and one call in a phase of the input's name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

COLUMNS = {"num_bytes": torch.int64, "seconds": torch.float64, "bus_bandwidth_bytes_per_s": torch.float64}


def in_place(
    at: Any, *, function: str, members: list[int] | None = None, layout: str = "plain", **arguments: Any
) -> dict[str, torch.Tensor]:
    """ring_all_reduce, recursive_doubling_all_reduce or broadcast; each input's memory comes back as the call left it."""
    group, takes_part = group_of(at, members)
    for name, memory in at.inputs.items():
        if takes_part:
            with at.phase(name):
                at.mark("call")
                getattr(at.submission, function)(view(memory, layout), group=group, **arguments)
    return dict(at.inputs)


def reduce_scatter(at: Any, *, op: str, members: list[int] | None = None, layout: str = "plain") -> dict[str, torch.Tensor]:
    """ring_reduce_scatter: the chunk that it returned, and the input's memory after the chunk has been overwritten."""

    def call(name: str, tensor: torch.Tensor, group: Any) -> torch.Tensor:
        return at.submission.ring_reduce_scatter(tensor, op=op, group=group)

    return returned_by(call, at, members, layout)


def all_gather(
    at: Any, *, num_elements: dict[str, int], members: list[int] | None = None, layout: str = "plain"
) -> dict[str, torch.Tensor]:
    """ring_all_gather of `num_elements[name]`: the whole that it returned, and the chunk's memory after the whole has been overwritten."""

    def call(name: str, tensor: torch.Tensor, group: Any) -> torch.Tensor:
        return at.submission.ring_all_gather(tensor, num_elements[name], group=group)

    return returned_by(call, at, members, layout)


def all_to_all(
    at: Any, *, rows: dict[str, list[list[int]]] | None, members: list[int] | None = None, layout: str = "plain"
) -> dict[str, torch.Tensor]:
    """all_to_all with `rows[name][i][j]` rows from group rank i to group rank j; None: without splits."""

    def call(name: str, tensor: torch.Tensor, group: Any) -> torch.Tensor:
        if rows is None:
            return at.submission.all_to_all(tensor, group=group)
        rank, table = dist.get_rank(group), rows[name]
        return at.submission.all_to_all(tensor, table[rank], [row[rank] for row in table], group=group)

    return returned_by(call, at, members, layout)


def large(at: Any, *, function: str, repeat: int, **arguments: Any) -> dict[str, torch.Tensor]:
    """One collective on "x" repeated `repeat` times; of what it made, the smallest and largest value at each place of the pattern."""
    pattern = at.inputs["x"]
    tensor = pattern.repeat(repeat)
    with at.phase("x"):
        at.mark("call")
        returned = getattr(at.submission, function)(tensor, **arguments)
    made = tensor if function in ("ring_all_reduce", "recursive_doubling_all_reduce", "broadcast") else required(returned, function)
    repeats = made.reshape(-1, len(pattern))
    return {"smallest": repeats.amin(0), "largest": repeats.amax(0)}


def costs(at: Any, *, algorithm: str) -> dict[str, torch.Tensor]:
    """all_reduce_seconds for each element of the inputs."""
    columns = [at.inputs[name].tolist() for name in ("num_bytes", "world_size", "latency_s", "bandwidth_bytes_per_s")]
    seconds = [at.submission.all_reduce_seconds(*case, algorithm) for case in zip(*columns, strict=True)]
    return {"seconds": torch.tensor(seconds, dtype=torch.float64)}


def refusal(at: Any, *, algorithm: str) -> None:
    """What all_reduce_seconds does with this name: the exception's type, or what it returned."""
    try:
        at.report(returned=float(at.submission.all_reduce_seconds(1000, 4, 1e-6, 1e9, algorithm)))
    except NotImplementedError:
        raise
    except Exception as raised:
        at.report(raised=type(raised).__name__)


def bandwidths(at: Any) -> dict[str, torch.Tensor]:
    """bus_bandwidth for each element of the inputs."""
    columns = [at.inputs[name].tolist() for name in ("num_bytes", "seconds", "world_size")]
    speeds = [at.submission.bus_bandwidth(*case) for case in zip(*columns, strict=True)]
    return {"bandwidth": torch.tensor(speeds, dtype=torch.float64)}


def staged_measurement(
    at: Any, *, sizes_bytes: list[int], num_warmup: int, num_timed: int, members: list[int] | None = None
) -> dict[str, torch.Tensor]:
    """measure_bus_bandwidth on a clock that only launches and synchronisation move, by the seconds that the inputs say."""
    group, takes_part = group_of(at, members)
    if not takes_part:
        return {name: torch.zeros(len(sizes_bytes), dtype=dtype) for name, dtype in COLUMNS.items()}
    stage = Stage(at.inputs["launch_s"].tolist(), at.inputs["run_s"].tolist(), group, start_s=1000.0 * (at.rank + 1))
    points = at.submission.measure_bus_bandwidth(
        sizes_bytes,
        all_reduce=stage.all_reduce,
        num_warmup=num_warmup,
        num_timed=num_timed,
        clock=stage.clock,
        synchronize=stage.synchronize,
        group=group,
    )
    at.report(calls=stage.calls)
    return columns_of(points)


def real_measurement(at: Any, *, sizes_bytes: list[int], num_warmup: int, num_timed: int) -> dict[str, torch.Tensor]:
    """measure_bus_bandwidth as it comes: the submission's own ring on the real clock."""
    options = {} if at.device.type == "cpu" else {"device": str(at.device)}
    return columns_of(at.submission.measure_bus_bandwidth(sizes_bytes, num_warmup=num_warmup, num_timed=num_timed, **options))


class Stage:
    """A clock, an all-reduce and a synchronisation that belong together, as on a GPU: a call returns when its work is launched."""

    def __init__(self, launch_s: list[float], run_s: list[float], group: Any, start_s: float) -> None:
        self.group = group
        self.durations_s = list(zip(launch_s, run_s, strict=True))
        self.now_s, self.in_flight_s = start_s, 0.0
        self.calls: list[list[Any]] = []

    def clock(self) -> float:
        return self.now_s

    def synchronize(self) -> None:
        self.now_s += self.in_flight_s
        self.in_flight_s = 0.0

    def all_reduce(self, tensor: torch.Tensor, op: str = "sum", group: Any = None) -> None:
        if len(self.calls) < len(self.durations_s):
            launch_s, run_s = self.durations_s[len(self.calls)]
            self.now_s += launch_s
            self.in_flight_s += run_s
        self.calls.append([tensor.numel() * tensor.element_size(), str(tensor.dtype).removeprefix("torch."), group is self.group])


# --- shared ----------------------------------------------------------------------------------------------------------
def group_of(at: Any, members: list[int] | None) -> tuple[Any, bool]:
    """The group of these global ranks (None: everybody) and whether this rank is one of them. All ranks make it together."""
    if members is None:
        return None, True
    return dist.new_group(members), at.rank in members


def view(memory: torch.Tensor, layout: str) -> torch.Tensor:
    """The tensor that a submission gets: all of `memory`, or a part of it that isn't contiguous."""
    return {"plain": memory, "transposed": memory.mT if memory.dim() > 1 else memory, "every_second": memory[::2]}[layout]


def returned_by(call: Callable[[str, torch.Tensor, Any], Any], at: Any, members: list[int] | None, layout: str) -> dict[str, torch.Tensor]:
    """For each input: what the call returned, then the input's memory once the returned tensor has been zeroed."""
    group, takes_part = group_of(at, members)
    answer = {}
    for name, memory in at.inputs.items():
        if takes_part:
            with at.phase(name):
                at.mark("call")
                returned = call(name, view(memory, layout), group)
            answer[name] = required(returned, name).clone()
            returned.zero_()
        else:
            answer[name] = memory.new_empty(0)
        answer[f"{name}.input"] = memory
    return answer


def required(returned: Any, name: str) -> torch.Tensor:
    """`returned`, if it is a tensor."""
    if not isinstance(returned, torch.Tensor):
        raise TypeError(f"{name}: the function returned {type(returned).__name__}; expected a tensor")
    return returned


def columns_of(points: Sequence[Any]) -> dict[str, torch.Tensor]:
    """A list of BandwidthPoints as three columns."""
    return {name: torch.tensor([getattr(point, name) for point in points], dtype=dtype) for name, dtype in COLUMNS.items()}
