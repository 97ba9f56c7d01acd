"""The judgements on activations: those that the papers count, and those that autograd really keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.laws.memory_accounting import ledger, mistakes, printed
from tests.laws.memory_accounting.judging import ACTIVATIONS_PER_CENT, REAL_STEP, assert_between, assert_figures, assert_nothing_built
from tests.laws.memory_accounting.laws import told
from tests.laws.memory_accounting.models import PLAIN, Array, Model, Options, Sizes, drawn, models_of

Layout = dict[str, Any]
Way = tuple[str, str]  # dtype, recompute

LOOK = "Let saved_bytes(model, run, show=True) print what is kept for this model, and find the line that your formula lacks or has twice."


# --- the papers' layer and stage -------------------------------------------------------------------------------------
def run_published(
    observe: Any, probe: str, layouts: Sequence[Layout], sizes: Array | None = None, *, is_papers_kind: bool = True, **case: Any
) -> Any:
    """The papers' figures for each layout, for models of drawn sizes unless given.

    is_papers_kind: the config itself has an MLP of 4h and full heads. If not, the papers' layer has them nevertheless.
    """

    def papers_models(rng: np.random.Generator) -> dict[str, Array]:
        rows, batches = [], []
        for _ in layouts:
            heads, layers = 8 * int(rng.integers(1, 17)), 8 * int(rng.integers(1, 13))
            hidden = heads * 16 * int(rng.integers(2, 9))
            kv_heads, mlp = (heads, 4 * hidden) if is_papers_kind else (heads // 8, 3 * hidden)
            rows.append([int(rng.integers(30_000, 60_000)), 8192, layers, hidden, heads, kv_heads, mlp])
            batches.append([int(rng.integers(1, 9)), 64 * int(rng.integers(8, 65))])
        return {"sizes": np.asarray(rows, np.int64), "batches": np.asarray(batches, np.int64)}

    shape = (len(layouts),) if probe == "published_layers" else (len(layouts), 3)
    given = papers_models if sizes is None else {"sizes": sizes[:, :7], "batches": sizes[:, 7:]}
    returns = {"counted": ("float64", shape)}
    return observe(probe, transport="none", inputs=given, returns=returns, options=[PLAIN], layouts=list(layouts), **case)


def judge_published_layers(observe: Any, layouts: Sequence[Layout], *, suggestion: str = "", **case: Any) -> None:
    """One layer on one rank is the sum of the papers' tensors, each cut or whole as it is there."""
    seen = run_published(observe, "published_layers", layouts, **case)
    batches, models = seen.input("batches", 0).tolist(), models_of(seen)
    asked = list(zip(models, batches, layouts, strict=True))
    ledgers = [ledger.published_layer(model, *batch, layout) for model, batch, layout in asked]
    assert_figures(
        seen.rank(0)["counted"],
        [sum(each.values()) for each in ledgers],
        what=described("published_layer_bytes", models, batches, layouts),
        ledgers=ledgers,
        mistakes=[mistakes.of_published_layer(model, *batch, layout) for model, batch, layout in asked],
        factors=degrees(layouts),
        kinds=layouts,
        suggestion=suggestion,
    )


def judge_published_stages(observe: Any, layouts: Sequence[Layout], *parts: str, suggestion: str = "", **case: Any) -> None:
    """These parts of the first stage's activations are what the papers count."""
    seen = run_published(observe, "published_stages", layouts, **case)
    batches, models = seen.input("batches", 0).tolist(), models_of(seen)
    asked = list(zip(models, batches, layouts, strict=True))
    rows = [ledger.published_stage(model, *batch, layout) for model, batch, layout in asked]
    misread = [mistakes.of_published_stage(model, *batch, layout) for model, batch, layout in asked]
    for part in parts:
        at = ("layers", "embedding", "head").index(part)
        assert_figures(
            seen.rank(0)["counted"][:, at],
            [row[at] for row in rows],
            what=[f"{part} of {call}" for call in described("published_activation_bytes", models, batches, layouts)],
            ledgers=[{f"all of `{part}`": row[at]} for row in rows],
            mistakes=[each[at] for each in misread],
            factors=degrees(layouts),
            kinds=layouts,
            note=f"It is `{part}` that is off.",
            suggestion=suggestion,
        )


def degrees(layouts: Sequence[Layout]) -> dict[str, float]:
    """tp and pp where all layouts share them, as ratios to be recognised."""
    shared = {name: {layout.get(name, 1) for layout in layouts} for name in ("tp", "pp")}
    return {name: float(values.pop()) for name, values in shared.items() if len(values) == 1 and values != {1}}


def described(function: str, models: Sequence[Model], batches: Sequence[list[int]], layouts: Sequence[Layout]) -> list[str]:
    """Each call as a student would write it."""
    return [
        f"{function}({model}, {batch[0]}, {batch[1]}{', ' if layout else ''}{told(layout)})"
        for model, batch, layout in zip(models, batches, layouts, strict=True)
    ]


def judge_printed(observe: Any, names: Sequence[str], **case: Any) -> None:
    """The figures that the paper prints: per cent saved (section 5), the bars of figure 7, and the GiB of figure 1."""
    rows = {name: printed.KORTHIKANTI_TABLE_3[name] for name in names}
    sequence, vocabulary = printed.MEGATRON_SEQUENCE, printed.MEGATRON_VOCABULARY
    sizes = np.asarray([[vocabulary, sequence, layers, hidden, heads, heads, 4 * hidden, batch, sequence]
                        for heads, hidden, layers, _, _, _, batch in rows.values()], np.int64)  # fmt: skip

    def layers_under(**chosen: Any) -> dict[str, float]:
        layouts = [{"tp": tp, **chosen} for _, _, _, tp, _, _, _ in rows.values()]
        seen = run_published(observe, "published_layers", layouts, sizes, **case)
        return dict(zip(rows, seen.rank(0)["counted"].tolist(), strict=True))

    def stages_under(**chosen: Any) -> dict[str, float]:
        layouts = [{"tp": tp, "pp": pp, "interleave": chunks, **chosen} for _, _, _, tp, pp, chunks, _ in rows.values()]
        seen = run_published(observe, "published_stages", layouts, sizes, **case)
        return dict(zip(rows, seen.rank(0)["counted"][:, 0].tolist(), strict=True))

    alone = layers_under()
    both = layers_under(sequence_parallel=True, recompute="selective")
    bars = {"sequence": layers_under(sequence_parallel=True), "selective": layers_under(recompute="selective"), "both": both,
            "full": layers_under(recompute="full")}  # fmt: skip
    cut, advice = (
        layers_under(sequence_parallel=True),
        "Go through the table of section 5 for this model: which lines does this configuration keep, and which does it cut?",
    )
    for name, (heads, hidden, *_) in rows.items():
        model = f"{name} ({heads} heads, h = {hidden})"
        if saved := printed.KORTHIKANTI_SAVED_PER_CENT.get(name):
            per_cent = 100 * (1 - both[name] / cut[name])
            assert_between(
                per_cent, saved - 0.5, saved + 0.5, what=f"{model}: what selective recomputation saves, in per cent", suggestion=advice
            )
        for bar, height in printed.KORTHIKANTI_FIGURE_7.get(name, {}).items():
            per_cent, slack = 100 * bars[bar][name] / alone[name], printed.DRAWING_POINTS
            assert_between(per_cent, height - slack, height + slack, what=f"{model}, figure 7, {bar}, in per cent", suggestion=advice)
    for name, (plain_gib, least_gib) in printed.KORTHIKANTI_FIGURE_1.items():
        if name not in rows:
            continue
        for gib, chosen in ((plain_gib, {}), (least_gib, {"sequence_parallel": True, "recompute": "selective"})):
            got = stages_under(**chosen)[name] / 2**30
            what = f"{name}, figure 1: layers in GiB{', ' if chosen else ''}{told(chosen)}"
            assert_between(got, gib * 0.9999, gib * 1.0001, what=what, suggestion=advice)


# --- what autograd keeps ---------------------------------------------------------------------------------------------
def run_activations(
    observe: Any, sizes: Sequence[Sizes], options: Sequence[Options], batches: Sequence[tuple[int, int]], ways: Sequence[Way], **case: Any
) -> Any:
    """activation_bytes for each model, batch and way, and what a real forward keeps."""
    inputs = drawn(sizes, batches=np.asarray(batches, np.int64))
    returns = {name: ("float64", (len(sizes),)) for name in ("counted", "held")}
    return observe("activations", transport="none", inputs=inputs, returns=returns, options=list(options),
                   ways=[list(way) for way in ways], **case)  # fmt: skip


def judge_activations(seen: Any) -> None:
    """Within 5 % of the sum of what each operation keeps, and of what a real forward kept."""
    models, batches, answer = models_of(seen), seen.input("batches", 0).tolist(), seen.rank(0)
    ways = [(2 if dtype == "bfloat16" else 4, recompute) for dtype, recompute in seen.request.parameters["ways"]]
    ledgers = [ledger.activations(model, *batch, *way) for model, batch, way in zip(models, batches, ways, strict=True)]
    assert_nothing_built(seen, "activation_bytes")
    misread = [mistakes.of_activations(model, *batch, *way) for model, batch, way in zip(models, batches, ways, strict=True)]
    what = [
        f"activation_bytes({model}, {batch[0]}, {batch[1]}, dtype_bytes={way[0]}, recompute={way[1]!r})"
        for model, batch, way in zip(models, batches, ways, strict=True)
    ]
    held = {"": [sum(each.values()) for each in ledgers], REAL_STEP: answer["held"].tolist()}
    for source, expected in held.items():
        assert_figures(
            answer["counted"], expected, what=what, per_cent=ACTIVATIONS_PER_CENT, ledgers=ledgers, mistakes=misread, source=source,
            suggestion=LOOK,
        )  # fmt: skip


def judge_full_size(observe: Any, row: int, layers: int, **case: Any) -> None:
    """A model of Megatron-LM's table, forward on the meta device: no number is computed, every tensor has its size."""
    _, heads, hidden, _ = printed.MEGATRON_TABLE_1[row]
    sequence, vocabulary = printed.MEGATRON_SEQUENCE, printed.MEGATRON_VOCABULARY
    sizes = np.asarray([[vocabulary, sequence, layers, hidden, heads, heads, 4 * hidden]], np.int64)
    inputs = {"sizes": sizes, "batches": np.asarray([[1, sequence]], np.int64)}
    returns = dict.fromkeys(("counted", "held"), ("float64", (1,)))
    judge_activations(observe("activations", transport="none", inputs=inputs, returns=returns, options=[PLAIN],
                              ways=[["bfloat16", "none"]], device="meta", **case))  # fmt: skip
