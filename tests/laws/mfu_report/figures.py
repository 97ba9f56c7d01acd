"""The laws of utilisation, communication and scaling: figures of single runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from grader.numerics import Hints, assert_close
from tests.laws.memory_accounting.models import Array
from tests.laws.mfu_report import logs
from tests.laws.mfu_report.flops import RELATIVE, assert_refused
from tests.laws.mfu_report.oracle import Entry, Machine, at_speed

Change = Callable[[list[Entry], Machine], logs.Log]


# --- utilisation -----------------------------------------------------------------------------------------------------
def with_even_steps(entries: list[Entry], machine: Machine) -> logs.Log:
    """All steps of a run alike, so that any mean is the median."""
    return [replace(entry, step_s=(float(np.median(entry.step_s)),) * 4) for entry in entries], machine


def with_a_disturbed_step(entries: list[Entry], machine: Machine) -> logs.Log:
    """One step ten times as long; half of the runs have an even number of steps."""
    kept = [4 if place % 2 else 5 for place in range(len(entries))]
    disturbed = [(*entry.step_s[: count - 1], 10 * max(entry.step_s)) for entry, count in zip(entries, kept, strict=True)]
    return [replace(entry, step_s=steps) for entry, steps in zip(entries, disturbed, strict=True)], machine


def judge_tokens(observe: Any, ladder: Sequence[logs.Step], tamper: Change, **case: Any) -> None:
    """tokens_per_s of every run of a ladder."""
    drawn = logs.drawn(ladder, tamper)
    count = len(drawn["runs"])
    seen = observe("tokens", transport="none", returns={"tokens_per_s": ("float64", (count,))}, **drawn, **case)
    entries, _ = logs.decoded(seen)
    expected = np.asarray([entry.tokens_per_s for entry in entries])
    medians = np.asarray([np.median(entry.step_s) for entry in entries])

    def by(statistic: Callable[[Array], Any]) -> Array:
        return expected * medians / np.asarray([statistic(np.asarray(entry.step_s)) for entry in entries])

    others = {
        "one rank's tokens (world size forgotten)": expected / [entry.world_size for entry in entries],
        "one micro-batch's tokens (accumulation forgotten)": expected / [entry.num_micro_batches for entry in entries],
        "one rank's tokens of one micro-batch": expected / [entry.world_size * entry.num_micro_batches for entry in entries],
        "sequences instead of tokens": expected / [entry.sequence for entry in entries],
    }
    if tamper is with_a_disturbed_step:
        others |= {"those by the mean step": by(np.mean), "those by the fastest step": by(np.min), "those by the slowest step": by(np.max)}
        others |= {"those by the upper of two median steps": by(lambda s: np.sort(s)[len(s) // 2])}
        others |= {"those by the lower of two median steps": by(lambda s: np.sort(s)[(len(s) - 1) // 2])}
    suggestion = "Tokens of all micro-batches and ranks, over the median of step_s."
    compare(seen.rank(0)["tokens_per_s"], expected, "tokens_per_s of the ladder's runs", Hints(others=others, suggestion=suggestion))


def judge_mfu(observe: Any, ladder: Sequence[logs.Step], **case: Any) -> None:
    """mfu of runs without recomputation, over the submission's own tokens and FLOPs."""
    judge_rates(observe, ladder, ("mfu",), lambda entry: entry.recompute == "none", **case)


def judge_recomputation(observe: Any, ladder: Sequence[logs.Step], **case: Any) -> None:
    """mfu and hfu of every run."""
    judge_rates(observe, ladder, ("hfu", "mfu"), lambda entry: True, **case)


def judge_rates(observe: Any, ladder: Sequence[logs.Step], names: Sequence[str], wanted: Callable[[Entry], bool], **case: Any) -> None:
    """Utilisation rests on tokens and FLOPs that other laws judge: here it is what the submission's own ones come to."""
    drawn = logs.drawn(ladder)
    count = len(drawn["runs"])
    returns: dict[str, Any] = dict.fromkeys(("mfu", "hfu", "needed", "done"), ("float64", (count, 2)))
    seen = observe("rates", transport="none", returns=returns | {"tokens_per_s": ("float64", (count,))}, **drawn, **case)
    entries, machine = logs.decoded(seen)
    chosen = [place for place, entry in enumerate(entries) if wanted(entry)]
    own = {name: figures[chosen] for name, figures in seen.rank(0).items()}
    ranks = np.asarray([[entries[place].world_size] for place in chosen])
    peaks = np.asarray([[machine.peaks[entries[place].precision]] for place in chosen])
    for name in names:
        flops, other = (own["needed"], own["done"]) if name == "mfu" else (own["done"], own["needed"])
        expected = own["tokens_per_s"][:, None] * flops / (ranks * peaks)
        others = {
            "as over one device's peak (world size)": expected * ranks,
            "as over the world size twice": expected / ranks,
            "as over the sparse peak": expected * peaks / machine.sparse_flops_per_s,
            "with the other kind of FLOPs: recomputation counts in HFU only": expected * other / flops,
            "with the other count of attention: causal": expected * flops[:, ::-1] / flops,
            "by the full count of attention both times: causal is ignored": expected * flops[:, :1] / flops,
        }
        others |= {f"as over the {key} peak in every run": expected * peaks / peak for key, peak in machine.peaks.items()}
        suggestion = "tokens/s x FLOPs per token / (world_size x the dense peak of the run's precision), a fraction."
        hints = Hints(others=others, factors={"per cent": 100.0}, suggestion=suggestion)
        compare(own[name], expected, f"{name} of the ladder's runs, with causal False and True", hints)


def judge_missing_peak(observe: Any, ladder: Sequence[logs.Step], *, missing: str, **case: Any) -> None:
    """mfu and hfu of a run in a precision that the hardware has no peak for."""

    def without(entries: list[Entry], machine: Machine) -> logs.Log:
        return entries, replace(machine, peaks={name: peak for name, peak in machine.peaks.items() if name != missing})

    drawn = logs.drawn(ladder, without)
    place = next(number for number, run in enumerate(drawn["runs"]) if run["precision"] == missing)
    for function in ("mfu", "hfu"):
        seen = observe("refusals", transport="none", function=function, arguments=[[place]], **drawn, **case)
        why = "There is nothing to divide by. The peak of another precision would give a number that means nothing."
        assert_refused(seen, function, [f"a {missing} run on hardware without a {missing} peak"], why=why)


# --- communication ---------------------------------------------------------------------------------------------------
def judge_ring(observe: Any, what: str, worlds: Sequence[int], *, latency: bool = False, **case: Any) -> None:
    """Volume or time of messages of any size, on rings of several sizes."""

    def messages(rng: np.random.Generator) -> dict[str, Array]:
        rows = [[rng.integers(10, 10**9), world, rng.uniform(1e9, 5e11), latency * rng.uniform(1e-6, 1e-3)] for world in worlds]
        return {"messages": np.asarray(rows, np.float64)}

    returns = {"counted": ("float64", (len(worlds),))}
    seen = observe("ring", transport="none", inputs=messages, returns=returns, what=what, **case)
    size, world, link, alpha = seen.input("messages", 0).T
    volume = 2 * (world - 1) / world * size
    expected = volume if what == "volume" else 2 * (world - 1) * alpha + volume / link
    name = "ring_all_reduce_bytes" if what == "volume" else "predicted_all_reduce_seconds"
    if what == "volume":
        others = {"the whole message": size, "twice the message": 2 * size}
        others |= {"one pass: (N - 1) / N": volume / 2, "2 (N - 1) messages": volume * world}
    else:
        others = {
            "without latency": volume / link,
            "one pass of hops: (N - 1) latencies": (world - 1) * alpha + volume / link,
            "one latency": alpha + volume / link,
            "N latencies": world * alpha + volume / link,
            "2 N latencies": 2 * world * alpha + volume / link,
            "the message itself over the bandwidth": 2 * (world - 1) * alpha + size / link,
            "both directions' bandwidth": 2 * (world - 1) * alpha + volume / (2 * link),
            "bits for bytes": 2 * (world - 1) * alpha + 8 * volume / link,
        }
    suggestion = "A reduce-scatter and an all-gather, N - 1 hops each, and an N-th of the message on each hop."
    hints = Hints(others=others, factors={"bits in a byte": 8.0}, suggestion=suggestion)
    compare(seen.rank(0)["counted"], expected, f"{name} on {', '.join(f'{n:g}' for n in world)} ranks", hints)


# --- scaling ---------------------------------------------------------------------------------------------------------
def judge_efficiency(observe: Any, ladder: Sequence[logs.Step], tamper: Change | None = None, **case: Any) -> None:
    """Efficiency of every run of several ranks."""
    drawn = logs.drawn(ladder, tamper)
    names = [run["name"] for run in drawn["runs"]]
    pairs = [[place, names.index(run["base"])] for place, run in enumerate(drawn["runs"]) if run["data_parallel"] != "none"]
    seen = observe("efficiencies", transport="none", returns={"counted": ("float64", (len(pairs),))}, pairs=pairs, **drawn, **case)
    entries, _ = logs.decoded(seen)
    runs, bases = ([entries[pair[side]] for pair in pairs] for side in (0, 1))
    speeds, alone = (np.asarray([entry.tokens_per_s for entry in side]) for side in (runs, bases))
    ranks = np.asarray([entry.world_size for entry in runs])
    others = {
        "the speed-up (not divided by world size)": speeds / alone,
        "the other way round: alone over each rank": alone * ranks / speeds,
        "divided by world size twice": speeds / alone / ranks**2,
        "never more than 1": np.minimum(1.0, speeds / alone / ranks),
    }
    hints = Hints(others=others, factors={"per cent": 100.0}, suggestion="Tokens/s per rank, over those of the run alone. A fraction.")
    compare(seen.rank(0)["counted"], speeds / ranks / alone, "scaling_efficiency of the runs of several ranks", hints)


def faster_than_alone(entries: list[Entry], machine: Machine) -> logs.Log:
    """Ranks that do a little better together than alone: not this function's to refuse."""
    faster = [at_speed(entry, entry.tokens_per_s * 1.3) if entry.world_size > 1 else entry for entry in entries]
    return faster, machine


def judge_each_field(observe: Any, ladder: Sequence[logs.Step], run: str, **case: Any) -> None:
    """Bases of one rank that differ from `run` in one field each."""

    def with_others(entries: list[Entry], machine: Machine) -> logs.Log:
        base = next(entry for entry in entries if entry.name == next(each for each in entries if each.name == run).base)
        fields: dict[str, Any] = {
            "precision": "fp32", "compiled": not base.compiled, "sequence": base.sequence + 1, "micro_batch": base.micro_batch + 1,
            "num_micro_batches": base.num_micro_batches + 1, "recompute": "full", "model": replace(base.model, bias=not base.model.bias),
        }  # fmt: skip
        return [*entries, *(replace(base, name=name, **{name: value}) for name, value in fields.items())], machine

    names = [entry.name for entry in with_others(*logs.climbed(np.random.default_rng(0), ladder))[0]]
    judge_other_work(observe, ladder, [(run, other) for other in names[len(ladder) :]], with_others, **case)


def judge_other_work(
    observe: Any, ladder: Sequence[logs.Step], pairs: Sequence[tuple[str, str]], tamper: Change | None = None, **case: Any
) -> None:
    """Bases that are none."""
    drawn = logs.drawn(ladder, tamper)
    place = {run["name"]: number for number, run in enumerate(drawn["runs"])}
    arguments = [[place[run], place[alone]] for run, alone in pairs]
    seen = observe("refusals", transport="none", function="scaling_efficiency", arguments=arguments, **drawn, **case)
    entries, _ = logs.decoded(seen)
    by_name = {entry.name: entry for entry in entries}
    given = [f"{run!r} against {alone!r} ({difference(by_name[run], by_name[alone])})" for run, alone in pairs]
    why = "The work must be the same: model, precision, recompute, compiled, sequence, micro_batch, num_micro_batches; alone is one rank."
    assert_refused(seen, "scaling_efficiency", given, why=why)


def difference(run: Entry, alone: Entry) -> str:
    """Why this is no base."""
    if alone.world_size > 1:
        return f"which has {alone.world_size} ranks"
    kinds = ("model", "precision", "compiled", "recompute", "sequence", "micro_batch", "num_micro_batches")
    return "which differs in " + ", ".join(name for name in kinds if getattr(run, name) != getattr(alone, name))


# --- shared ----------------------------------------------------------------------------------------------------------
def compare(got: Array, expected: Array, what: str, hints: Hints) -> None:
    """Within the handout's 1e-9."""
    right = np.asarray(expected, np.float64)
    assert_close(got, right, allowed=RELATIVE * np.abs(right), what=what, hints=hints)
