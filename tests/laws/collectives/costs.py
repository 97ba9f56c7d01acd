"""What the cost model must say. Oracles: messages counted one by one, and the trace of the submission's own all-reduces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.errors import LawBroken
from grader.numerics import Hints, assert_close
from grader.records import ITEMSIZE, Message
from tests.laws.collectives.runs import Array, Tensors
from tests.laws.collectives.structure import num_doubling_rounds
from tests.laws.rounds import num_rounds

NUM_RANDOM_CASES = 12
DIGITS = 1e-12  # a formula in fp64: a few roundings, in any order
FORMULA = "a formula, computed on the host"
TIMED_DIGITS = 1e-9  # sums of products on the way through virtual time


def assert_figures(got: Array, expected: Sequence[float], *, what: str, suggestion: str = "", digits: float = DIGITS) -> None:
    """Figures agree relatively to `digits`."""
    reference = np.asarray(expected, np.float64)
    assert_close(got, reference, allowed=digits * np.abs(reference), what=what, hints=Hints(suggestion=suggestion))


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
        "costs", transport="none", host=FORMULA, inputs=cases, returns={"seconds": ("float64", (len(cases["num_bytes"]),))},
        algorithm=algorithm, **case,
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
    seen = observe("costs", transport="none", host=FORMULA, inputs=networks, returns={"seconds": ("float64", (count,))},
                   algorithm=algorithm, **case)  # fmt: skip
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
    facts = observe("refusal", transport="none", host=FORMULA, algorithm=algorithm, **case).facts(0)
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
    """The model's time is that of the submission's own trace: its rounds times the latency, plus what its bytes alone take."""
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
        latency_s * num_rounds(run, name) + run.virtual_time(latency_s=0.0, bandwidth_bytes_per_s=bytes_per_s, phase=name).end_s
        for name, latency_s, bytes_per_s in zip(names, latency, bandwidth, strict=True)
    ]
    seconds = predicted(observe, algorithm, cases, **case).rank(0)["seconds"]
    assert_figures(
        seconds,
        took,
        what=f"all_reduce_seconds of {algorithm!r} against the rounds and bytes of your own, on {run.world_size} ranks",
        digits=TIMED_DIGITS,
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

    seen = observe("bandwidths", transport="none", host=FORMULA, inputs=measured,
                   returns={"bandwidth": ("float64", (len(world_sizes),))}, **case)  # fmt: skip
    given = [seen.input(name, 0).tolist() for name in ("num_bytes", "seconds", "world_size")]
    expected = [sum([num_bytes / n] * 2 * (n - 1)) / seconds for num_bytes, seconds, n in zip(*given, strict=True)]
    for n, got, right in zip(world_sizes, seen.rank(0)["bandwidth"], expected, strict=True):
        assert_figures(
            got,
            right,
            what=f"bus_bandwidth of {'one rank' if n == 1 else f'{n} ranks'}, in bytes per second",
            suggestion="A link carries 2(N-1)/N of the tensor, not the tensor.",
        )
