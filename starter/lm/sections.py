"""The sections of the milestone's report: tables and plots of figures that your mfu_report.py derives from the log."""

from __future__ import annotations

import base64
import html
import io
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lm.gpt import PRESETS
from lm.hardware import HARDWARE
from lm.published import DIFFERENCES, GPT2_124M, LECTURE, LECTURE_LADDER, conventions
from lm.runlog import Log, Run, num_parameters


@dataclass(frozen=True)
class Section:
    """A piece of the page. Shows itself in a notebook."""

    title: str
    body: str  # HTML

    def _repr_html_(self) -> str:
        return self.body


def figure(value: float | None, form: str) -> str:
    """Return a number in words, a dash for None."""
    return "–" if value is None else form.format(value)


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return an HTML table."""
    cells = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table>"


def paragraph(text: str) -> str:
    """Return an HTML paragraph."""
    return f"<p>{html.escape(text)}</p>"


def machine(log: Log) -> Section:
    """Where and with what, and the peaks that everything is divided by."""
    facts = [(name, value) for name, value in log.machine.items() if value]
    facts += [(f"plan: {name}", str(value)) for name, value in log.plan.items()]
    peaks = ", ".join(f"{name} {peak / 1e12:.4g}" for name, peak in log.hardware.peak_flops_per_s.items())
    facts.append((f"dense peaks, TFLOP/s ({log.hardware.name})", peaks))
    facts.append((f"link ({log.hardware.link}), GB/s each way", f"{log.hardware.link_bytes_per_s / 1e9:.4g}"))
    facts.append(("source", log.hardware.source))
    return Section("Machine", table(("what", "value"), facts))


def verdict(log: Log) -> Section:
    """What check_log says."""
    import mfu_report  # yours

    broken = mfu_report.check_log(log)
    if not broken:
        return Section("Is it possible?", paragraph(f"check_log: all {len(log.runs)} runs are possible."))
    return Section("Is it possible?", table(("run", "bound", "why not"), [(each.run, each.bound, each.sentence) for each in broken]))


def ladder(log: Log) -> Section:
    """Every run of one rank, in order."""
    import mfu_report

    lines = [
        (
            row.name,
            run.base or "–",
            f"{row.tokens_per_s:,.0f}",
            figure(row.speed_up, "{:.2f}"),
            figure(row.mfu, "{:.1%}"),
            figure(row.hfu, "{:.1%}"),
            f"{row.peak_gib:.2f}",
        )
        for row, run in zip(mfu_report.summarise(log), log.runs, strict=True)
        if run.world_size == 1
    ]
    lines += [(name, "–", "skipped", "–", "–", "–", reason) for name, reason in log.skipped.items()]
    head = ("run", "against", "tokens/s", "times as fast", "MFU", "HFU", "peak GiB")
    return Section("One change at a time", table(head, lines))


def parallel(log: Log) -> Section:
    """Runs of several ranks, and what they send."""
    import mfu_report

    lines = [
        (
            row.name,
            str(run.world_size),
            f"{row.tokens_per_s:,.0f}",
            figure(row.efficiency, "{:.1%}"),
            figure(row.mfu, "{:.1%}"),
            f"{row.peak_gib:.2f}",
            figure(row.sent_bytes and row.sent_bytes / 1e6, "{:.1f}"),
            figure(row.predicted_s and row.predicted_s * 1e3, "{:.3f}"),
            figure(row.all_reduce_s and row.all_reduce_s * 1e3, "{:.3f}"),
            figure(row.share, "{:.1%}"),
        )
        for row, run in zip(mfu_report.summarise(log), log.runs, strict=True)
        if run.world_size > 1
    ]
    head = ("run", "ranks", "tokens/s", "efficiency", "MFU", "peak GiB", "sent MB", "predicted ms", "all-reduce ms", "share of the step")
    note = "Predicted: the ring's hops and bytes at the link's full rate. Measured: an all-reduce of as many, alone."
    return Section("Several ranks", (table(head, lines) + paragraph(note)) if lines else paragraph("No run had several ranks."))


def published(log: Log) -> Section:
    """The same model elsewhere, in its authors' count of FLOPs and in ours."""
    import mfu_report

    config = PRESETS["gpt2-124m"]
    ours = mfu_report.flops_per_token(config, 1024, causal=False, recompute="none")
    counted = conventions(num_parameters(config), config.max_tokens * config.hidden_size, config.num_layers * config.hidden_size, 1024)
    lines = []
    for each in GPT2_124M:
        peak = each.num_gpus * HARDWARE[each.gpu].peak_flops_per_s[each.precision]
        theirs_mfu, ours_mfu = (each.tokens_per_s * flops / peak for flops in (counted[each.counts], ours))
        per_gpu = each.tokens_per_s / each.num_gpus
        lines.append((each.who, f"{each.num_gpus} x {each.gpu}", f"{per_gpu:,.0f}", f"{theirs_mfu:.1%}", f"{ours_mfu:.1%}", each.source))
    head = ("GPT-2 124M, T = 1024", "GPUs", "tokens/s each", "MFU, authors' count", "MFU, our count", "source")
    counts = ", ".join(f"{name} {flops / 1e6:.1f}" for name, flops in counted.items())
    return Section(
        "Elsewhere",
        table(head, lines)
        + paragraph(
            f"MFLOP per token: {counts}, ours {ours / 1e6:.1f}. llm.c counts half of attention, llm-foundry and llm.c the positions; "
            "we count matrix products alone, and all of attention."
        )
        + factors(log)
        + "".join(map(paragraph, DIFFERENCES)),
    )


def factors(log: Log) -> str:
    """Return a table: what each step of the lecture's ladder gave there, and what it gives here."""
    import mfu_report

    here = {row.name: row.speed_up for row in mfu_report.summarise(log)}
    lines = [
        (name, f"{speed:,.0f}", f"{speed / before:.2f}", figure(here.get(name), "{:.2f}"))
        for (_, before), (name, speed) in itertools.pairwise(LECTURE_LADDER)
    ]
    speeds, two = dict(LECTURE_LADDER), ("compiled", "fused_attention")
    product = math.prod(here.get(name) or 0.0 for name in two) or None  # None: one of them was not measured
    lines.append((" and ".join(two), "", f"{speeds['fused_attention'] / speeds['bf16']:.2f}", figure(product, "{:.2f}")))
    head = ("step", "tokens/s on one A100", "times as fast there", "and here")
    return table(head, lines) + paragraph(f"Source: {LECTURE}.")


# --- plots -----------------------------------------------------------------------------------------------------------
def picture(draw: Any, *, width: float = 8.0, height: float = 3.6) -> str:
    """Return an <img> of what `draw` puts on the axes."""
    from matplotlib.figure import Figure  # no pyplot: nothing global, no window

    canvas = Figure(figsize=(width, height), layout="constrained")
    draw(canvas.subplots())
    stream = io.BytesIO()
    canvas.savefig(stream, format="png", dpi=110, metadata={"Software": None})
    return f'<img alt="plot" src="data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}">'


def bars(log: Log) -> Section:
    """Tokens per second and rank, with MFU written on; and memory."""
    import mfu_report

    rows = mfu_report.summarise(log)
    names = [row.name for row in rows]

    def speed(axes: Any) -> None:
        drawn = axes.barh(names, [row.tokens_per_s / run.world_size for row, run in zip(rows, log.runs, strict=True)], color="#3b6ea5")
        axes.bar_label(drawn, [figure(row.mfu, "{:.1%}") for row in rows], padding=3)
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.set_xlabel("tokens/s per rank; MFU beside each bar")

    def memory(axes: Any) -> None:
        axes.barh(names, [row.peak_gib for row in rows], color="#8a8f98")
        axes.invert_yaxis()
        axes.set_xlabel("peak memory of a rank, GiB")

    return Section("Speed and memory", picture(speed) + picture(memory))


def losses(log: Log) -> Section:
    """Loss curves: the same batch in every run, so that what changes the arithmetic shows."""

    def draw(axes: Any) -> None:
        for run in log.runs:
            axes.plot(range(1, len(run.losses) + 1), run.losses, label=run.name, linewidth=1)
        axes.set_xlabel("step")
        axes.set_ylabel("loss, nats per token")
        axes.legend(fontsize=7, ncols=2)

    apart = [(run.name, base.name, worst) for run, base in pairs(log) if (worst := largest_difference(run, base)) is not None]
    lines = [(name, base, f"{worst:.2e}") for name, base, worst in apart]
    note = "Runs whose batch and vocabulary are those of their base must follow its curve, but for rounding."
    return Section("Losses", picture(draw) + paragraph(note) + table(("run", "against", "largest difference, relative"), lines))


def pairs(log: Log) -> list[tuple[Run, Run]]:
    """Return every run of one rank with its base, where both saw the same batch and vocabulary."""
    both = [(run, base) for run in log.runs if run.world_size == 1 and run.base and (base := log.run(run.base))]

    def batch(run: Run) -> tuple[int, int]:
        return run.micro_batch * run.num_micro_batches, run.config.vocab_size

    return [(run, base) for run, base in both if batch(run) == batch(base)]


def largest_difference(run: Run, base: Run) -> float | None:
    """Return the largest relative difference of two curves, None if they have no step in common."""
    return max((abs(a / b - 1) for a, b in zip(run.losses, base.losses, strict=False)), default=None)


SECTIONS = (machine, verdict, ladder, bars, parallel, losses, published)
