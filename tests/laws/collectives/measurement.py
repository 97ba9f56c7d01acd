"""What the measurement must say and do. Oracle: a clock whose every move is known."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.errors import LawBroken
from grader.numerics import Hints, assert_close, assert_equal
from grader.records import Message
from tests.laws.collectives.costs import assert_figures
from tests.laws.collectives.runs import Array
from tests.laws.groups import members_of

CLOCK_DIGITS = 1e-9  # differences of clock readings of some thousand seconds


def columns(num_points: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """What the probes return of a list of BandwidthPoints."""
    floats = dict.fromkeys(("seconds", "bus_bandwidth_bytes_per_s"), ("float64", (num_points,)))
    return {"num_bytes": ("int64", (num_points,)), **floats}


def run_staged(observe: Any, world_size: int, *, sizes_bytes: list[int], num_warmup: int, num_timed: int, **case: Any) -> Any:
    """A measurement on a staged clock, made so that every shortcut leads to another figure.

    Warm-up takes far longer, the ranks take turns at being slow, and mean, median, smallest and first differ.
    """

    def durations(rng: np.random.Generator) -> dict[str, list[Array]]:
        run = rng.uniform(0, 0.1, (world_size, len(sizes_bytes), num_warmup + num_timed))
        for call in range(num_timed):
            run[call % world_size, :, num_warmup + call] += 3 + call**2 + 10 * np.arange(len(sizes_bytes))
        run[:, :, :num_warmup] += 100
        launch = rng.uniform(0.01, 0.02, run.shape)
        return {"launch_s": [each.reshape(-1) for each in launch], "run_s": [each.reshape(-1) for each in run]}

    sizes: dict[str, Any] = {"sizes_bytes": sizes_bytes, "num_warmup": num_warmup, "num_timed": num_timed}
    return observe("staged_measurement", world_size=world_size, inputs=durations, returns=columns(len(sizes_bytes)), **sizes, **case)


def judge_staged_times(seen: Any) -> None:
    """On every rank: the median, over the timed calls, of the slowest rank's launch and run."""
    case, members = seen.request.parameters, members_of(seen)
    shape = (len(members), len(case["sizes_bytes"]), case["num_warmup"] + case["num_timed"])
    launch, run = (np.stack([seen.input(name, rank) for rank in members]).reshape(shape) for name in ("launch_s", "run_s"))
    timed = (launch + run)[:, :, case["num_warmup"] :]
    slowest = timed.max(0)
    expected = np.asarray([statistics.median(calls) for calls in slowest.tolist()])
    for place, rank in enumerate(members):
        others = {
            "the time of the launches alone (is synchronize() called before the second reading?)": launch[place, :, case["num_warmup"] :],
            "this rank's own median, not that of the slowest rank": timed[place],
            "the median of the ranks' mean, not of the slowest rank": timed.mean(0),
            "the median with the warm-up in it": (launch + run).max(0),
        }
        suspects = {name: np.median(calls, axis=-1) for name, calls in others.items()}
        suspects |= {"the mean over the calls, not their median": slowest.mean(-1), "the fastest call, not the median": slowest.min(-1)}
        advice = "Is each call timed alone, with synchronize() right before each of the two readings of the clock?"
        what = f"seconds on rank {rank}, the median over the calls of the slowest rank's time"
        hints = Hints(others=suspects, factors={"timed calls": case["num_timed"]}, suggestion=advice)
        assert_close(seen.rank(rank)["seconds"], expected, allowed=CLOCK_DIGITS * expected, what=what, hints=hints)


def judge_calls(seen: Any) -> None:
    """Each size in turn, as a float32 tensor, as often as it was asked, through the given group; and the points say those sizes."""
    case = seen.request.parameters
    each = case["num_warmup"] + case["num_timed"]
    expected = [(size, "float32", True) for size in case["sizes_bytes"] for _ in range(each)]
    for rank in members_of(seen):
        sizes = np.asarray(case["sizes_bytes"])
        assert_equal(seen.rank(rank)["num_bytes"], sizes, what=f"num_bytes of the points on rank {rank}, in the order of the sizes")
        calls = [tuple(call) for call in seen.facts(rank)["calls"]]
        if calls != expected:
            raise LawBroken(
                Message(
                    seen=f"rank {rank} reduces {in_words(calls)}.",
                    allowed=f"Expected: {in_words(expected)}.",
                    diagnosis="The all-reduce that was handed in is not called as it should be.",
                    suggestion="For each size in the order given: num_warmup calls, then num_timed calls, with group=group, and no other.",
                )
            )


def in_words(calls: Sequence[tuple[Any, ...]]) -> str:
    """Calls in words: "1024 bytes of float32 7 times, then …"."""
    stretches = [(call, len(list(same))) for call, same in itertools.groupby(calls)]
    return (
        ", then ".join(
            f"{size} bytes of {dtype} {count} times{'' if is_through_group else ' without the group that was given'}"
            for (size, dtype, is_through_group), count in stretches
        )
        or "nothing"
    )


def run_measurement(observe: Any, world_size: int, *, sizes_bytes: list[int], num_warmup: int, num_timed: int, **case: Any) -> Any:
    """A measurement of the submission's own ring on the real clock."""
    sizes: dict[str, Any] = {"sizes_bytes": sizes_bytes, "num_warmup": num_warmup, "num_timed": num_timed}
    return observe("real_measurement", world_size=world_size, returns=columns(len(sizes_bytes)), **sizes, **case)


def judge_points(seen: Any) -> None:
    """Positive, equal on all ranks, and the bandwidth is the formula of the point's own size and seconds."""
    sizes, world_size = seen.request.parameters["sizes_bytes"], seen.world_size
    first = seen.rank(0)
    for rank in range(world_size):
        mine = seen.rank(rank)
        assert_equal(mine["num_bytes"], np.asarray(sizes), what=f"num_bytes on rank {rank}")
        if not (np.isfinite(mine["seconds"]).all() and (mine["seconds"] > 0).all()):
            raise LawBroken(
                Message(
                    seen=f"seconds on rank {rank} are {mine['seconds'].tolist()}.",
                    allowed="Expected: finite and above 0.",
                    diagnosis="A call that takes no time has not been timed.",
                )
            )
        for name in ("seconds", "bus_bandwidth_bytes_per_s"):
            alike = Hints(suggestion="A call took as long as on its slowest rank, which is the same number on all ranks.")
            assert_equal(mine[name], first[name], what=f"{name} on rank {rank}, which must be rank 0's", hints=alike)
        link_bytes = np.asarray([sum([size / world_size] * 2 * (world_size - 1)) for size in sizes])
        what, advice = (
            f"bus_bandwidth_bytes_per_s on rank {rank}",
            "It follows from the point's own num_bytes and seconds by bus_bandwidth.",
        )
        assert_figures(mine["bus_bandwidth_bytes_per_s"], link_bytes / mine["seconds"], what=what, suggestion=advice)
