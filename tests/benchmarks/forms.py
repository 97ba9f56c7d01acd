"""The forms of what is kept in tests/benchmarks/results: each a function of a document that yields paragraphs and tables in Markdown.

Bars for the pictures are left in `pictures`, by the picture's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tests.benchmarks.bars import Bar

Document = dict[str, Any]
Pictures = dict[str, list[Bar]]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first column is text, the others are figures."""
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join(["---"] + ["---:"] * (len(head) - 1)) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def machine_of(document: Document) -> str:
    """Where and when, as far as the document says so."""
    names = {"gpus": "", "device": "", "torch": "torch ", "triton": "Triton ", "driver": "driver ", "gpu_driver": "driver "}
    told = [f"{said}{document[name]}" for name, said in names.items() if document.get(name)]
    told += [str(document["date"])[:10]] if document.get("date") else []
    return ", ".join(told + ([f"commit {document['commit']}"] if document.get("commit") else [])) + "."


def interval(estimate: Document | None) -> str:
    """A ratio and where it lies; nothing for a race that has none."""
    return f"{estimate['ratio']:.3f} ({estimate['low']:.3f} to {estimate['high']:.3f})" if estimate else ""


def attention(document: Document, pictures: Pictures) -> Iterator[str]:
    """TFLOP/s of each way, forward and backward."""
    ways = list(document["shapes"][0]["measured"])
    yield (f"Attention in {document['dtype']}, causal, batch × tokens = 16 384: TFLOP/s, forward/backward. `reference` is the "
           "solution; `hopper` has its backward and the forward of tests/benchmarks/flash_attention_hopper.py.")  # fmt: skip
    rows = []
    for shape in document["shapes"]:
        seen = map(shape["measured"].get, ways)
        speeds = (f"{way['forward_tflop_per_s']:.0f}/{way['backward_tflop_per_s']:.0f}" if way else "" for way in seen)
        rows.append([f"{shape['heads']} heads of {shape['head_dim']}, {shape['tokens']} tokens", *speeds])
    yield table(["shape", *ways], rows)


def fused(document: Document, pictures: Pictures) -> Iterator[str]:
    """Share of a copy's bandwidth, forward and backward."""
    yield f"Fused operations in {document['dtype']}: share of a plain copy's bandwidth, forward/backward."
    ways = [name for name, seen in document["shapes"][0]["measured"].items() if isinstance(seen, dict)]
    rows = []
    for shape in document["shapes"]:
        seen = [shape["measured"].get(way, {}) for way in ways]
        shares = ("/".join(f"{way[name]:.2f}" for name in ("forward_of_copy", "backward_of_copy") if name in way) for way in seen)
        rows.append([f"{shape['operation']} {' × '.join(map(str, shape['shape']))}", *shares])
    yield table(["operation", *ways], rows)


def ladder(document: Document, pictures: Pictures) -> Iterator[str]:
    """Tokens per second, rung by rung."""
    pictures["ladder.svg"] = [Bar(name.replace("_", " "), speed / 1e3) for name, speed in document["tokens_per_s"].items()]
    yield f"{document['what'].removesuffix('.')}."
    yield "![Tokens per second, rung by rung](ladder.svg)"
    rows = []
    for name, speed in document["tokens_per_s"].items():
        rows.append([name.replace("_", " "), f"{speed:,}", f"{document['mfu'][name]:.1%}", str(document["peak_gib"][name])])
    yield table(["rung", "tokens/s", "MFU", "peak GiB"], rows)


def data_parallel(document: Document, pictures: Pictures) -> Iterator[str]:
    """The better median of each way, shape by shape."""
    ways = list(next(iter(document["shapes"].values()))["step_ms"])
    yield f"A step of {document['preset']} on {document['num_gpus']} GPUs, data parallel: ms, the better median."
    rows = []
    for name, shape in document["shapes"].items():
        rows.append([name, *(f"{min(shape['step_ms'][way]):.1f}" for way in ways), f"{shape['flat_over_reference']:.2f}"])
    yield table(["shape", *ways, "flat / reference"], rows)


def sharded(document: Document, pictures: Pictures) -> Iterator[str]:
    """Step and peak of both ways."""
    yield f"A step of {document['preset']}, fully sharded over {document['num_ranks']} GPUs, {document['sequences']} sequences on each."
    rows = ([way, f"{step_ms:.1f}", f"{document['peak_bytes'][way] / 2**30:.2f}"] for way, step_ms in document["step_ms"].items())
    yield table(["way", "ms", "peak GiB"], rows)


def tensor_parallel(document: Document, pictures: Pictures) -> Iterator[str]:
    """Tokens per second of each way."""
    yield f"{document['preset']}, tensor parallel on {document['world_size']} GPUs, {document['sequences']} sequences."
    yield table(["way", "tokens/s"], ([way.replace("_", " "), f"{speed:,.0f}"] for way, speed in document["tokens_per_s"].items()))


def many_gpus(document: Document, pictures: Pictures) -> Iterator[str]:
    """Each point's step beside the simulator's and torch's, and how far its loss and gradient are from the whole model's."""
    yield f"A training step on {document['num_gpus']} GPUs in every way: medians of {document['timed_steps']} steps of the slowest rank."
    rows = []
    for name, point in document["points"].items():
        if "step_ms" not in point:
            rows.append([name, "", "failed: see the file"] + [""] * 5)
            continue
        plan = point["plan"]
        seen = document["efficiency"].get(point["way"], {}).get(str(plan["dp"]), {}) if point["step"] == "scaling" else {}
        off = [f"{point[one] / point[f'whole_{one}'] - 1:+.2%}" for one in ("loss", "gradient_norm")]
        rows.append([
            name, f"{plan['dp'] * plan['micro_batch'] * plan['num_micro_batches']} × {point['tokens']}", f"{point['step_ms']:.1f}",
            f"{point['simulated']['step_ms']:.1f}" if point["simulated"] else "", f"{seen['measured']:.1%}" if seen else "",
            f"{seen['over_torch']:.2f}" if "over_torch" in seen else "", *off,
        ])  # fmt: skip
    yield table(["point", "sequences × tokens", "ms", "simulated ms", "of one rank's rate", "× torch's step", "loss off", "norm off"], rows)


def gpu_profile(document: Document, pictures: Pictures) -> Iterator[str]:
    """Every assignment in one go, then the steps before it, and whether all was as expected."""
    yield document["about"]
    wholes = document["whole"]
    heads = [f"{run['date']}: {'passed' if run['passed'] else 'failed'}, {run['wall_s']:.0f} s" for run in wholes]
    yield table(
        ["whole, cases / laws / seconds", *heads],
        ([name, *(f"{each['cases']} / {each['laws']} / {each['wall_s']:.0f}" for each in (run["assignments"][name] for run in wholes))]
         for name in wholes[-1]["assignments"]),
    )  # fmt: skip
    yield "Before that, assignment by assignment; what was not as expected was mended then:"
    rows = []
    for run in document["runs"]:
        figures = [str(run.get(name, "")) for name in ("gpus", "cases", "laws")]
        rows.append([run["step"], "yes" if run["ok"] else "no", *figures, f"{run['whole_s']:.0f}" if "whole_s" in run else ""])
    yield table(["step", "as expected", "GPUs", "cases", "laws", "seconds"], rows)


def races(document: Document, pictures: Pictures) -> Iterator[str]:
    """Marks, ratios and how far they can be believed; half of the speed; dishonest submissions."""
    yield document["about"]
    for run in document["runs"]:
        yield machine_of(run["machine"] | {name: run[name] for name in ("date", "commit") if name in run})
        raced = {name: mark for name, mark in run["marks"].items() if " " not in name}
        yield from _raced(raced, pictures)
        halves = [mark["estimate"]["ratio"] for name, mark in run["marks"].items() if name.startswith("half ") and mark.get("estimate")]
        if halves:
            yield f"Half of the speed, {len(halves)} times: ratios from {min(halves):.3f} to {max(halves):.3f}."
        if cheats := {name.removeprefix("cheat "): mark for name, mark in run["marks"].items() if name.startswith("cheat ")}:
            yield table(
                ["dishonest submission", "ended", "may end", "ratio"],
                ([name.replace("_", " "), mark["state"], mark.get("expected", ""), interval(mark.get("estimate"))]
                 for name, mark in cheats.items()),
            )  # fmt: skip


def _raced(marks: dict[str, Document], pictures: Pictures) -> Iterator[str]:
    rows = []
    for name, mark in marks.items():
        earned = f"{mark['earned']:g} of {mark['possible']}" if mark["state"] == "judged" else mark["state"].replace("_", " ")
        rows.append([name, mark["against"], interval(mark.get("alone")), interval(mark.get("estimate")), earned])
        if mark["state"] == "judged" and mark["possible"]:
            seen = mark["estimate"]
            others = [bar for bar in pictures.get("races.svg", []) if bar.label != name]  # the later race counts
            pictures["races.svg"] = [*others, Bar(name, seen["ratio"], seen["low"], seen["high"])]
    if rows:
        yield table(["race", "against", "the peer beside its twin", "ratio", "marks"], rows)


FORMS: dict[str, Callable[[Document, Pictures], Iterator[str]]] = {
    "races": races, "flash_attention": attention, "fused_kernels": fused, "nanogpt_ladder": ladder,
    "sharded_data_parallel": sharded, "data_parallel": data_parallel, "tensor_parallel": tensor_parallel, "gpu_profile": gpu_profile,
    "many_gpus": many_gpus,
}  # fmt: skip
