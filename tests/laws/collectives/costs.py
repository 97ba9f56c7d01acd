"""What the cost model and the measurement must say. Oracles: messages counted one by one, and a clock whose every move is known."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.errors import LawBroken
from grader.numerics import Hints, assert_close, assert_equal
from grader.records import ITEMSIZE, Message
from tests.laws.collectives.runs import Array, Tensors
from tests.laws.collectives.structure import num_doubling_rounds

NUM_RANDOM_CASES = 12
DIGITS = 1e-12  # a formula in fp64: a few roundings, in any order
CLOCK_DIGITS = 1e-9  # differences of clock readings around 1000 s


def assert_figures(got: Array, expected: Sequence[float], *, what: str, suggestion: str = "", digits: float = DIGITS) -> None:
    """Figures agree relatively to `digits`."""
    reference = np.asarray(expected, np.float64)
    assert_close(got, reference, allowed=digits * np.abs(reference), what=what, hints=Hints(suggestion=suggestion))


# --- the model -------------------------------------------------------------------------------------------------------
def modelled_seconds(algorithm: str, num_bytes: float, world_size: int, latency_s: float, bandwidth_bytes_per_s: float) -> float:
    """The time of an all-reduce, message after message."""
    if world_size == 1:
        return 0.0
    messages = {
        "ring": [num_bytes / world_size] * (2 * (world_size - 1)),
        "recursive_doubling": [num_bytes] * num_doubling_rounds(world_size),
        "central": [num_bytes] * (2 * (world_size - 1)),
    }[algorithm]
    return math.fsum(latency_s + each / bandwidth_bytes_per_s for each in messages)


def predicted(observe: Any, algorithm: str, cases: dict[str, Array], **case: Any) -> Any:
    """all_reduce_seconds of the submission for each case."""
    return observe(
        "costs", transport="none", inputs=cases, returns={"seconds": ("float64", (len(cases["num_bytes"]),))}, algorithm=algorithm, **case
    )


def judge_costs(observe: Any, algorithm: str, *, world_sizes: Sequence[int], **case: Any) -> None:
    """On random networks of each world size, and in the limits: nothing to send, no latency, endless bandwidth."""

    def networks(rng: np.random.Generator) -> dict[str, Array]:
        count = NUM_RANDOM_CASES * len(world_sizes)
        drawn = {
            "num_bytes": np.round(10 ** rng.uniform(1, 9, count)),
            "world_size": np.repeat(np.asarray(world_sizes, np.int64), NUM_RANDOM_CASES),
            "latency_s": 10 ** rng.uniform(-7, -3, count),
            "bandwidth_bytes_per_s": 10 ** rng.uniform(8, 12, count),
        }
        drawn["num_bytes"][0::NUM_RANDOM_CASES] = 0
        drawn["latency_s"][1::NUM_RANDOM_CASES] = 0
        drawn["bandwidth_bytes_per_s"][2::NUM_RANDOM_CASES] = np.inf
        return drawn

    count = NUM_RANDOM_CASES * len(world_sizes)
    seen = observe("costs", transport="none", inputs=networks, returns={"seconds": ("float64", (count,))}, algorithm=algorithm, **case)
    given = {name: seen.input(name, 0) for name in ("num_bytes", "world_size", "latency_s", "bandwidth_bytes_per_s")}
    seconds = seen.rank(0)["seconds"]
    for start in range(0, count, NUM_RANDOM_CASES):
        part = slice(start, start + NUM_RANDOM_CASES)
        world_size = int(given["world_size"][start])
        expected = [
            modelled_seconds(algorithm, *values)
            for values in zip(
                given["num_bytes"][part].tolist(),
                [world_size] * NUM_RANDOM_CASES,
                given["latency_s"][part].tolist(),
                given["bandwidth_bytes_per_s"][part].tolist(),
                strict=True,
            )
        ]
        assert_figures(
            seconds[part],
            expected,
            what=f"all_reduce_seconds of {algorithm!r} for {world_size} ranks",
            suggestion="How many rounds are there, and how many bytes has a message? Try S = 0 and infinite bandwidth by hand.",
        )


def judge_refusal(observe: Any, algorithm: str, **case: Any) -> None:
    """A name that isn't in the table raises ValueError."""
    facts = observe("refusal", transport="none", algorithm=algorithm, **case).facts(0)
    if facts.get("raised") == "ValueError":
        return
    seen = f"raises {facts['raised']}" if "raised" in facts else f"returns {facts.get('returned')}"
    raise LawBroken(
        Message(
            seen=f"all_reduce_seconds with algorithm {algorithm!r} {seen}.",
            allowed="Expected: ValueError, with the names that exist.",
            diagnosis="An unknown algorithm is not refused with ValueError.",
            suggestion="Whoever mistypes a name should hear it at once, and not read a number.",
        )
    )


def judge_prediction(observe: Any, run: Any, algorithm: str, tensors: Tensors, **case: Any) -> None:
    """The model's time is the time of the submission's own trace on that network."""
    networks = [(2.0, 64.0), (1e-3, 1e4), (0.0, 10.0)]
    names = [name for name in tensors for _ in networks]
    sizes = [tensors[name][1][0] * ITEMSIZE[tensors[name][0]] for name in names]
    latency, bandwidth = zip(*(networks * len(tensors)), strict=True)
    cases = {
        "num_bytes": np.asarray(sizes, np.float64),
        "world_size": np.full(len(names), run.world_size, np.int64),
        "latency_s": np.asarray(latency, np.float64),
        "bandwidth_bytes_per_s": np.asarray(bandwidth, np.float64),
    }
    took = [
        run.virtual_time(latency_s=a, bandwidth_bytes_per_s=b, phase=name).end_s
        for name, a, b in zip(names, latency, bandwidth, strict=True)
    ]
    seconds = predicted(observe, algorithm, cases, **case).rank(0)["seconds"]
    assert_figures(
        seconds,
        took,
        what=f"all_reduce_seconds of {algorithm!r} against the trace of your own, {run.world_size} ranks",
        digits=CLOCK_DIGITS,
        suggestion="One of the two is off: the model, or how many rounds and bytes your all-reduce takes.",
    )


def judge_bus_bandwidth(observe: Any, *, world_sizes: Sequence[int], **case: Any) -> None:
    """2(N-1)/N times the bytes per second, for random measurements."""

    def measured(rng: np.random.Generator) -> dict[str, Array]:
        return {
            "num_bytes": np.round(10 ** rng.uniform(1, 9, len(world_sizes))),
            "seconds": 10 ** rng.uniform(-6, 0, len(world_sizes)),
            "world_size": np.asarray(world_sizes, np.int64),
        }

    seen = observe("bandwidths", transport="none", inputs=measured, returns={"bandwidth": ("float64", (len(world_sizes),))}, **case)
    given = [seen.input(name, 0).tolist() for name in ("num_bytes", "seconds", "world_size")]
    expected = [sum([num_bytes / n] * 2 * (n - 1)) / seconds for num_bytes, seconds, n in zip(*given, strict=True)]
    for n, got, right in zip(world_sizes, seen.rank(0)["bandwidth"], expected, strict=True):
        assert_figures(got, right, what=f"bus_bandwidth of {n} ranks", suggestion="A link carries 2(N-1)/N of the tensor, not the tensor.")


# --- the measurement -------------------------------------------------------------------------------------------------
def columns(num_points: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """What the probes return of a list of BandwidthPoints."""
    return {"num_bytes": ("int64", (num_points,)), "seconds": ("float64", (num_points,)), "bandwidth": ("float64", (num_points,))}


def run_staged(observe: Any, world_size: int, *, sizes_bytes: list[int], num_warmup: int, num_timed: int, **case: Any) -> Any:
    """A measurement on a staged clock, made so that every shortcut leads to another figure.

    Warm-up takes far longer, the ranks take turns at being slow, and mean, median, smallest and first differ.
    """

    def durations(rng: np.random.Generator) -> dict[str, list[Array]]:
        num_calls = num_warmup + num_timed
        run = rng.uniform(0, 0.1, (world_size, len(sizes_bytes), num_calls))
        for call in range(num_timed):
            run[call % world_size, :, num_warmup + call] += 3 + call**2 + 10 * np.arange(len(sizes_bytes))
        run[:, :, :num_warmup] += 100
        launch = rng.uniform(0.01, 0.02, run.shape)
        return {"launch_s": [each.reshape(-1) for each in launch], "run_s": [each.reshape(-1) for each in run]}

    return observe(
        "staged_measurement",
        world_size=world_size,
        inputs=durations,
        returns=columns(len(sizes_bytes)),
        rendezvous=False,
        sizes_bytes=sizes_bytes,
        num_warmup=num_warmup,
        num_timed=num_timed,
        **case,
    )


def judge_staged_times(seen: Any) -> None:
    """On every rank: the median, over the timed calls, of the slowest rank's launch and run."""
    case = seen.request.parameters
    shape = (seen.world_size, len(case["sizes_bytes"]), case["num_warmup"] + case["num_timed"])
    spent = np.stack([seen.input("launch_s", rank) + seen.input("run_s", rank) for rank in range(seen.world_size)]).reshape(shape)
    timed = spent[:, :, case["num_warmup"] :]
    slowest = timed.max(0)
    expected = [statistics.median(calls) for calls in slowest.tolist()]
    for rank in range(seen.world_size):
        suspects = {
            "the time of the launches alone (nobody waited for the work)": np.median(
                seen.input("launch_s", rank).reshape(shape[1:])[:, case["num_warmup"] :], axis=1
            ),
            "this rank's own median, not that of the slowest rank": np.median(timed[rank], axis=1),
            "the mean over the calls": slowest.mean(1),
            "the fastest call": slowest.min(1),
            "the median with the warm-up in it": np.median(spent.max(0), axis=1),
        }
        hints = Hints(
            others=suspects, factors={"timed calls": case["num_timed"]}, suggestion="Which work is still running when the clock is read?"
        )
        reference = np.asarray(expected)
        assert_close(seen.rank(rank)["seconds"], reference, allowed=CLOCK_DIGITS * reference, what=f"seconds on rank {rank}", hints=hints)


def judge_calls(seen: Any) -> None:
    """Each size in turn, as a float32 tensor, as often as it was asked; and the points say those sizes."""
    case = seen.request.parameters
    each = case["num_warmup"] + case["num_timed"]
    for rank in range(seen.world_size):
        assert_equal(seen.rank(rank)["num_bytes"], np.asarray(case["sizes_bytes"]), what=f"num_bytes of the points on rank {rank}")
        calls = [tuple(call) for call in seen.facts(rank)["calls"]]
        expected = [(size, "float32") for size in case["sizes_bytes"] for _ in range(each)]
        if calls != expected:
            raise LawBroken(
                Message(
                    seen=f"rank {rank} reduces {runs_of(calls)}.",
                    allowed=f"Expected: {runs_of(expected)}.",
                    diagnosis="The all-reduce that was handed in is not called as often, or not on such tensors, as it should be.",
                    suggestion="For each size: num_warmup calls, then num_timed calls, and nothing else through that all_reduce.",
                )
            )


def runs_of(calls: Sequence[tuple[int, str]]) -> str:
    """Calls in words: "1024 bytes of float32 7 times, then …"."""
    stretches = [(call, len(list(same))) for call, same in itertools.groupby(calls)]
    return ", then ".join(f"{size} bytes of {dtype} {count} times" for (size, dtype), count in stretches) or "nothing"


def run_measurement(observe: Any, world_size: int, *, sizes_bytes: list[int], num_warmup: int, num_timed: int, **case: Any) -> Any:
    """A measurement of the submission's own ring on the real clock."""
    return observe(
        "real_measurement",
        world_size=world_size,
        returns=columns(len(sizes_bytes)),
        sizes_bytes=sizes_bytes,
        num_warmup=num_warmup,
        num_timed=num_timed,
        **case,
    )


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
        for name in ("seconds", "bandwidth"):
            assert_equal(
                mine[name],
                first[name],
                what=f"{name} on rank {rank}, which must be rank 0's",
                hints=Hints(suggestion="A call took as long as on its slowest rank, which is the same number on all ranks."),
            )
        link_bytes = [sum([size / world_size] * 2 * (world_size - 1)) for size in sizes]
        assert_figures(
            mine["bandwidth"],
            np.asarray(link_bytes) / mine["seconds"],
            what=f"bus_bandwidth_bytes_per_s on rank {rank}",
            suggestion="It follows from the point's own num_bytes and seconds by bus_bandwidth.",
        )
