"""Chrome traces as torch.profiler writes them, made with known answers, and what must be read out of each.

A made trace is planned as what the device did and when the host asked for it; from the plan come both the events and, second by second on a
grid of whole microseconds, the answers. Recorded traces (tests/benchmarks/record_traces.py) are read by a second, slower way: by sorting
all beginnings and ends.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.errors import LawBroken
from grader.numerics import Hints, assert_close
from grader.records import Message
from tests.laws.fused_kernels.cases import at_home
from tests.laws.fused_kernels.saying import about

Event = dict[str, Any]
HOST = "the trace is a file; reading it needs no device"
ON_DEVICE, LAUNCHING = ("kernel", "gpu_memcpy", "gpu_memset"), ("cuda_runtime", "cuda_driver")
COMPUTE_WORDS = ("gemm", "nvjet", "cutlass", "xmma", "conv", "flash", "fmha")
RELATIVE = 1e-9  # sums of some thousand float64 numbers


@dataclass(frozen=True, slots=True)
class Deed:
    """Something on a device. `asked_us`: when the launching call began (None: no such call is in the trace)."""

    name: str
    start_us: float
    dur_us: float
    asked_us: float | None = 0.0
    stream: int = 7
    device: int = 0
    cat: str = "kernel"
    by: str = "cuda_runtime"


@dataclass(frozen=True, slots=True)
class Reading:
    """What trace_summary should say."""

    gpu_busy_fraction: float
    top_kernels: list[list[Any]]
    launch_gaps_us: list[float]
    memory_bound_fraction: float
    bottleneck: str


# --- making ----------------------------------------------------------------------------------------------------------
def written(deeds: list[Deed], *, origin_us: float = 5_141_592_653.125, seed: int = 0) -> Event:
    """The trace of these deeds, its events in no order, with what else torch.profiler writes."""
    events: list[Event] = [
        {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "python"}},
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", "ts": origin_us - 900,
         "dur": 90_000.0, "args": {"Op count": 0}},
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 41, "tid": 41, "ts": origin_us - 700, "dur": 70_000.0},
        {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#3", "pid": 0, "tid": 7, "ts": origin_us - 300, "dur": 60_000.0,
         "args": {"device": 0, "stream": 7}},
        {"ph": "i", "s": "t", "name": "[memory]", "cat": "cpu_instant_event", "pid": 41, "tid": 41, "ts": origin_us + 4, "args": {}},
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": origin_us + 80_000},
    ]  # fmt: skip
    for number, deed in enumerate(deeds):
        start, correlation = origin_us + deed.start_us, 101 + number
        args = {"External id": 5000 + number, "device": deed.device, "stream": deed.stream, "correlation": correlation}
        extra = {"registers per thread": 32, "grid": [64, 1, 1], "block": [128, 1, 1]} if deed.cat == "kernel" else {"bytes": 4096}
        events.append({"ph": "X", "cat": deed.cat, "name": deed.name, "pid": deed.device, "tid": deed.stream, "ts": start,
                       "dur": deed.dur_us, "args": extra | args})  # fmt: skip
        if deed.asked_us is None:
            continue
        asked = origin_us + deed.asked_us
        call = {"cbid": 211, "correlation": correlation, "External id": 5000 + number}
        op = {"External id": 5000 + number, "Record function id": 0, "Ev Idx": number}
        events += [
            {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 41, "tid": 41, "ts": asked - 3, "dur": 9.5, "args": op},
            {"ph": "X", "cat": deed.by, "name": "cudaLaunchKernel", "pid": 41, "tid": 41, "ts": asked, "dur": 4.25, "args": call},
            {"ph": "s", "id": correlation, "pid": 41, "tid": 41, "ts": asked, "cat": "ac2g", "name": "ac2g"},
            {"ph": "f", "id": correlation, "pid": deed.device, "tid": deed.stream, "ts": start, "cat": "ac2g", "name": "ac2g", "bp": "e"},
        ]
    order = np.random.default_rng(seed).permutation(len(events))
    return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}], "displayTimeUnit": "ms", "baseTimeNanoseconds": 0,
            "traceEvents": [events[i] for i in order], "traceName": "trace.json"}  # fmt: skip


# --- reading ---------------------------------------------------------------------------------------------------------
def read(trace: Event, *, device: int = 0, top: int = 5, sin: str = "") -> Reading:
    """The answers, by sweeping over beginnings and ends. `sin`: a well-known wrong way, for the messages."""
    whole = [e for e in trace["traceEvents"] if e.get("ph") == "X"]
    here = [e for e in whole if e.get("cat") in ON_DEVICE and e["args"].get("device") == device]
    if not here:
        return Reading(0.0, [], [], 0.0, "none")
    moments = sorted([(e["ts"], 1, i) for i, e in enumerate(here)] + [(e["ts"] + e["dur"], -1, i) for i, e in enumerate(here)],
                     key=lambda moment: (moment[0], -moment[1], moment[2]))  # fmt: skip
    launching = LAUNCHING[:1] if sin == "runtime_only" else LAUNCHING
    late = {"end_of_the_call": 1.0}.get(sin, 0.0)
    asked = {e["args"].get("correlation"): e["ts"] + late * e["dur"] for e in whole if e.get("cat") in launching and "args" in e}
    running, busy_us, gaps, idle_from = 0, 0.0, [], None
    for before, (at, step, index) in zip([None, *moments], moments, strict=False):
        if running:
            busy_us += at - before[0]
        elif idle_from is not None and at > idle_from:
            call = asked.get(here[index]["args"].get("correlation"))
            if sin == "all_gaps" or (call is not None and call > idle_from):
                gaps.append(at - idle_from)
        running += step
        idle_from = at if running == 0 else None
    window = moments[-1][0] - moments[0][0]
    kernels = [e for e in here if e["cat"] == "kernel"]
    names = sorted({e["name"] for e in kernels})
    totals = {name: (sum(e["dur"] for e in kernels if e["name"] == name), sum(e["name"] == name for e in kernels)) for name in names}
    ranked = sorted(names, key=lambda name: -totals[name][0])
    all_us = sum(total for total, _ in totals.values())
    as_asked = str if sin == "as_written" else str.lower
    memory_us = sum(total for name, (total, _) in totals.items() if not any(word in as_asked(name) for word in COMPUTE_WORDS))
    share = memory_us / all_us if all_us else 0.0
    most = (busy_us if sin == "third_of_busy" else window) / 3
    is_overhead = sum(gaps) >= most if sin == "from_a_third_on" else sum(gaps) > most
    is_memory = share > 0.5 if sin == "above_one_half" else share >= 0.5
    bottleneck = "overhead" if is_overhead else "memory" if is_memory else "compute"
    if sin == "sum_of_durations":
        busy_us = sum(e["dur"] for e in here)
    if sin == "last_begun_ends":
        busy_us = _busy_until_the_last_begun_ends(here)
    return Reading(busy_us / window, [[name, *totals[name]] for name in ranked[:top]], gaps, share, bottleneck)


def _busy_until_the_last_begun_ends(events: list[Event]) -> float:
    """A mistake: a short event ends the stretch in which a longer one still runs."""
    stretches: list[list[float]] = []
    for event in sorted(events, key=lambda event: float(event["ts"])):
        if stretches and event["ts"] <= stretches[-1][1]:
            stretches[-1][1] = event["ts"] + event["dur"]
        else:
            stretches.append([event["ts"], event["ts"] + event["dur"]])
    return sum(end - start for start, end in stretches)


# --- judging ---------------------------------------------------------------------------------------------------------
def run(observe: Any, trace: Event, *, kind: str = "", **options: int) -> Any:
    """trace_summary of the trace."""
    text = np.frombuffer(json.dumps(trace).encode(), np.uint8)
    return observe("trace", inputs={"trace": text}, returns={}, options=options, host=HOST, kind=kind, **at_home())


def judge_busy(seen: Any, trace: Event, **options: int) -> None:
    """gpu_busy_fraction; and the trace is as it was."""
    if not seen.facts(0)["is_left_alone"]:
        words = "sorted(...) makes a new list; .sort() changes the old one."
        raise LawBroken(Message(seen="trace_summary changed the trace.", suggestion=words))
    right, host = read(trace, **options).gpu_busy_fraction, _with_host(trace)
    others = {
        "the sum of all durations over the time; streams overlap": read(trace, sin="sum_of_durations", **options).gpu_busy_fraction,
        "the time of stretches that end with the event that began last, though a longer one still runs":
            read(trace, sin="last_begun_ends", **options).gpu_busy_fraction,
        "the fraction of the time from the first event of any kind to the last": right * host,
        "the busy time of kernels alone": read(_only(trace, "kernel"), **options).gpu_busy_fraction,
        "the fraction of all devices together": read(_on_one_device(trace, options.get("device", 0)), **options).gpu_busy_fraction,
    }  # fmt: skip
    _close(seen.facts(0)["gpu_busy_fraction"], right, "gpu_busy_fraction", others)


def judge_top(seen: Any, trace: Event, **options: int) -> None:
    """top_kernels: names, times, launches, in order."""
    got, right = seen.facts(0)["top_kernels"], read(trace, **options).top_kernels
    if [[name, count] for name, _, count in got] != [[name, count] for name, _, count in right]:
        same = sorted(map(str, got)) == sorted(map(str, right))
        words = "Kernels are added up by name, copies are none, and only one device counts."
        words = "The kernels are right and their order isn't: the longest in all first, equal ones in order of names." if same else words
        words = f"In question: top_kernels. {words}"
        raise LawBroken(Message(seen=f"top_kernels: {got}", allowed=f"Expected: {right}", diagnosis=words))
    for (name, us, _), (_, expected, _) in zip(got, right, strict=True):
        _close(us, expected, f"microseconds of {name}", {})


GAP_SINS = {
    "all_gaps": "These are all gaps. For some of them the host isn't to blame: the call that ends it began before the device ran dry.",
    "runtime_only": "These are the gaps of calls in cuda_runtime alone; a launch may be a cuda_driver call.",
    "end_of_the_call": "These are the gaps whose call had not ended when the device ran dry; what counts is when it began.",
}


def _alike(got: list[float], right: list[float]) -> bool:
    return len(got) == len(right) and np.allclose(got, right, rtol=0, atol=1e-3)  # timestamps around 5e9 µs are exact to 1e-6


def judge_gaps(seen: Any, trace: Event, **options: int) -> None:
    """launch_gaps_us: exactly the host's."""
    got, right = seen.facts(0)["launch_gaps_us"], read(trace, **options).launch_gaps_us
    if _alike(got, right):
        return
    diagnosis = ""
    if sins := [words for sin, words in GAP_SINS.items() if _alike(got, read(trace, sin=sin, **options).launch_gaps_us)]:
        diagnosis = sins[0]
    elif sorted(np.round(got, 3)) == sorted(np.round(right, 3)):
        diagnosis = "The gaps are right and their order isn't: in order of time."
    elif len(got) < len(right):
        diagnosis = f"Of the host's gaps {len(right) - len(got)} are missing."
    raise LawBroken(
        Message(
            seen=f"launch_gaps_us: {_short(got)}",
            allowed=f"Expected: {_short(right)}",
            diagnosis=f"In question: launch_gaps_us. {diagnosis}".strip(),
            suggestion="Merge what overlaps, on all streams of the device; then ask by the correlation number when the call began.",
        )
    )


BOTTLENECK_SINS = {
    "third_of_busy": "It follows if gaps are compared with a third of the busy time, not of the whole time from first to last.",
    "from_a_third_on": "It follows if a third itself is overhead already; it takes more.",
    "above_one_half": "It follows if one half itself is not memory yet.",
}


def judge_share(seen: Any, trace: Event, **options: int) -> None:
    """memory_bound_fraction and the bottleneck that follows."""
    facts, right = seen.facts(0), read(trace, **options)
    others = {
        "the share of compute-bound kernels": 1 - right.memory_bound_fraction,
        "the share by names as they are written; capitals don't matter": read(trace, sin="as_written", **options).memory_bound_fraction,
    }
    _close(facts["memory_bound_fraction"], right.memory_bound_fraction, "memory_bound_fraction", others)
    if facts["bottleneck"] != right.bottleneck:
        gaps, share = sum(right.launch_gaps_us), right.memory_bound_fraction
        sins = [words for sin, words in BOTTLENECK_SINS.items() if read(trace, sin=sin, **options).bottleneck == facts["bottleneck"]]
        raise LawBroken(
            Message(
                seen=f"bottleneck: {facts['bottleneck']!r}",
                diagnosis=" ".join(["In question: the bottleneck; the fractions are right.", *sins[:1]]),
                allowed=f"Expected: {right.bottleneck!r}: launch gaps of {gaps:.6g} µs in all, memory_bound_fraction {share:.6g}.",
                suggestion="Overhead if the gaps are more than a third of the time from first to last; memory from one half on.",
            )
        )


def _close(got: float, right: float, what: str, others: dict[str, float]) -> None:
    hints = Hints(others={words: np.float64(value) for words, value in others.items()}, factors={"ns in a µs": 1000.0},
                  suggestion="Section 9 says what counts.")  # fmt: skip
    with about(what):
        assert_close(np.float64(got), np.float64(right), allowed=RELATIVE * abs(right), what=what, hints=hints)


def _short(gaps: list[float]) -> str:
    return str([round(gap, 3) for gap in gaps[:8]]).rstrip("]") + (f", ... {len(gaps)} in all]" if len(gaps) > 8 else "]")


def _only(trace: Event, cat: str) -> Event:
    return {"traceEvents": [e for e in trace["traceEvents"] if e.get("cat") not in ON_DEVICE or e.get("cat") == cat]}


def _on_one_device(trace: Event, device: int) -> Event:
    moved = [e | {"args": e["args"] | {"device": device}} if e.get("cat") in ON_DEVICE else e for e in trace["traceEvents"]]
    return {"traceEvents": moved}


def _with_host(trace: Event) -> float:
    """The device's window over the window of all complete events."""
    complete = [e for e in trace["traceEvents"] if e.get("ph") == "X"]
    window = lambda events: max(e["ts"] + e["dur"] for e in events) - min(e["ts"] for e in events)  # noqa: E731
    here = [e for e in complete if e.get("cat") in ON_DEVICE]
    return window(here) / window(complete) if here else 0.0


# --- the made traces -------------------------------------------------------------------------------------------------
GEMM, NORM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", "triton_per_fused_mean_0"
ADD = "void at::native::vectorized_elementwise_kernel<4, ...>"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def eager() -> Event:
    """One stream, kernels launched ahead, a stretch in which the host fell behind, and gaps that are not its fault."""
    deeds = [
        Deed(GEMM, 100, 50, 10), Deed(ADD, 150, 30, 20), Deed(ADD, 182, 30, 30), Deed(NORM, 215, 20, 234.5 - 20),
        Deed(ADD, 260, 10, 250), Deed(GEMM, 300, 55, 290), Deed(NORM, 360, 20, 300),
        Deed("Memcpy DtoH (Device -> Pageable)", 390, 4, 384, cat="gpu_memcpy"),
    ]  # fmt: skip
    return written(deeds, seed=1)


def overlapping() -> Event:
    """Two streams side by side, one event within another, and a second device."""
    deeds = [
        Deed(GEMM, 0, 100, -40), Deed(ADD, 20, 30, -30, stream=20), Deed(NORM, 90, 40, -20, stream=20),
        Deed(GEMM, 200, 140, 140, by="cuda_driver"), Deed(ALL_REDUCE, 220, 90, 100, stream=20), Deed(ADD, 350, 5, 120),
        Deed("Memset (Device)", 400, 3, 100, cat="gpu_memset"),
        Deed("other_gpus_kernel", 130, 500, 131, device=1), Deed("other_gpus_kernel", -300, 20, -400, device=1),
    ]  # fmt: skip
    return written(deeds, seed=2)


def launch_bound(num: int = 40) -> Event:
    """Short kernels, each launched when the one before has long ended."""
    return written([Deed(f"elementwise_{i % 3}", 20.0 * i, 2.5 + i % 2, 20.0 * i - 6.25) for i in range(num)], seed=3)


def nothing() -> Event:
    """A trace of the host alone."""
    return written([], seed=4)
