"""The laws of task flops. Figures are taken apart first, by asking at two sequences and two vocabularies: a mistake in one product
breaks its own law and leaves the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.errors import LawBroken
from grader.numerics import Hints, assert_close
from grader.records import Message
from tests.laws.memory_accounting.models import Array, Model, Options, Sizes, models_of
from tests.laws.mfu_report import oracle

RELATIVE = 1e-9  # formulas in fp64, added in any order
FULL = (False, "none")
Variant = tuple[float, float, Any]  # sequence factor, vocabulary factor, way (causal, recompute)


def run(observe: Any, sizes: Sequence[Sizes], options: Sequence[Options], variants: Sequence[Variant], **case: Any) -> Any:
    """Ask for every model (a row of sizes with its options) in every variant."""

    def inputs(rng: np.random.Generator) -> dict[str, Array]:
        rows, sequences = [], []
        for each in sizes:
            row, sequence = each.draw(rng), int(rng.integers(20, 120))
            for longer, wider, _ in variants:
                rows.append([round(row[0] * wider), *row[1:]])
                sequences.append(round(sequence * longer))
        return {"sizes": np.asarray(rows, np.int64), "sequences": np.asarray(sequences, np.int64)}

    count = len(sizes) * len(variants)
    given = {"options": [option for option in options for _ in variants], "ways": [list(way) for _ in sizes for *_, way in variants]}
    return observe("flops", transport="none", inputs=inputs, returns={"counted": ("float64", (count,))}, **given, **case)


def table(seen: Any, num_variants: int) -> tuple[Array, Array, list[Model]]:
    """Figures and sequences, a row for each model, and the models as they were in the first variant."""
    shape = (-1, num_variants)
    models = models_of(seen)[::num_variants]
    return seen.rank(0)["counted"].reshape(shape), seen.input("sequences", 0).reshape(shape).astype(np.float64), models


def judge_products(observe: Any, sizes: Sequence[Sizes], options: Sequence[Options], **case: Any) -> None:
    """What neither the sequence nor the vocabulary changes: six FLOPs for every weight of the blocks' matrices."""
    counted, sequences, models = table(run(observe, sizes, options, [(1, 1, FULL), (3, 1, FULL), (1, 3, FULL)], **case), 3)
    base, longer, wider = counted.T
    per_token_of_sequence = (longer - base) / (sequences[:, 1] - sequences[:, 0])
    # The vocabulary is tripled, so two thirds of the difference to `wider` is the head of the base, twice.
    rest = base - per_token_of_sequence * sequences[:, 0] - (wider - base) / 2
    matrices = ("qkv", "the output projection", "the MLP's up", "the MLP's down", "the MLP's gate")
    parts = columns([items(model, matrices) for model in models])
    expected = np.sum(list(parts.values()), axis=0)
    mlps = np.sum([part for name, part in parts.items() if "MLP" in name], axis=0)
    four_to_mlp = [4 * model.hidden_size / model.mlp_size for model in models]
    # The MLP's matrices are equally large, so none can be told from another.
    parts = {name: part for name, part in parts.items() if "MLP" not in name}
    parts["one of the MLP's matrices (up, down, or a gate's)"] = np.asarray([items(m, ("the MLP's up",))["the MLP's up"] for m in models])
    only_gated = [model.activation == "swiglu" for model in models]
    parts["the gate of gated MLPs"] = parts["one of the MLP's matrices (up, down, or a gate's)"] * only_gated
    parameters = [oracle.parameters(model) for model in models]
    others = {
        "6 FLOPs for all parameters but the token embedding's": np.asarray(
            [6 * (sum(each.values()) - each["the token embedding"] - each["the head"]) for each in parameters]
        ),
        "an MLP of 4C": expected + mlps * (np.asarray(four_to_mlp) - 1),
        "an MLP of two matrices and 4C": expected - mlps + np.asarray([48 * m.num_layers * m.hidden_size**2 for m in models]),
        "qkv as wide as 3C": expected
        + np.asarray([12 * m.num_layers * m.hidden_size * m.head_dim * (m.num_heads - m.num_kv_heads) for m in models]),
    }
    factors = {"three passes, forward once and backward twice": 3.0, "three passes instead of two": 1.5}
    factors["a multiplication and an addition"] = 2.0
    hints = Hints(parts=parts, others=others, factors=factors, suggestion="List the matrices of one block, in x out, and sum 6 in out.")
    close(rest, expected, scale=base, what=f"what neither T nor V changes of flops_per_token({models[0]}, ...)", hints=hints)


def judge_head(observe: Any, sizes: Sequence[Sizes], options: Sequence[Options], **case: Any) -> None:
    """What three times the vocabulary adds: a head twice as wide again; and nothing for the embedding."""
    counted, _, models = table(run(observe, sizes, options, [(1, 1, FULL), (1, 3, FULL)], **case), 2)
    heads = np.asarray([items(model, ("the head",))["the head"] for model in models])
    expected = 2 * heads
    others = {"head and embedding": 2 * expected, "no head": 0 * expected}
    suggestion = "The head is one C x V product per token, also where its matrix is the embedding's. A look-up is none."
    hints = Hints(others=others, suggestion=suggestion)
    close(counted[:, 1] - counted[:, 0], expected, scale=counted[:, 0], what="what a vocabulary three times as large adds", hints=hints)


def judge_free(observe: Any, options: Sequence[Options], **case: Any) -> None:
    """Positions, norms, biases and a tied head cost nothing: models that differ in these only cost the same."""

    def inputs(rng: np.random.Generator) -> dict[str, Array]:
        row, sequence = Sizes().draw(rng), int(rng.integers(20, 60))
        return {"sizes": np.asarray([row] * len(options), np.int64), "sequences": np.asarray([sequence] * len(options), np.int64)}

    given = {"options": list(options), "ways": [list(FULL) for _ in options]}
    seen = observe("flops", transport="none", inputs=inputs, returns={"counted": ("float64", (len(options),))}, **given, **case)
    counted, models = seen.rank(0)["counted"], models_of(seen)
    added = counted - counted[0]
    learned = np.asarray([6.0 * model.max_tokens * model.hidden_size * (model.positions == "learned") for model in models])
    untied = np.asarray([6.0 * model.vocab_size * model.hidden_size * (not model.tied) for model in models])
    counts = np.asarray([6.0 * sum(oracle.parameters(model).values()) for model in models])
    others = {
        "the positions' table": learned - learned[0],
        "the embedding beside a head of its own": untied - untied[0],
        "no head where it is tied": untied - untied[0],
        "6 FLOPs for every parameter (embeddings counted)": counts - counts[0],
    }
    suggestion = "Which of these options add or drop a matrix product? A look-up and a bias are none; a tied head is one."
    hints = Hints(others=others, suggestion=suggestion)
    close(added, np.zeros_like(added), scale=counted, what="what positions, norms, biases and an untied head (embeddings) add", hints=hints)


def judge_attention(observe: Any, sizes: Sequence[Sizes], options: Sequence[Options], **case: Any) -> None:
    """What a longer sequence adds."""
    counted, sequences, models = table(run(observe, sizes, options, [(1, 1, FULL), (2, 1, FULL), (5, 1, FULL)], **case), 3)
    for longer in (1, 2):
        more = sequences[:, longer] - sequences[:, 0]
        parts = columns([items(model, oracle.ATTENTION, keys=1.0) for model in models])
        parts = {name: part * more for name, part in parts.items()}
        expected = np.sum(list(parts.values()), axis=0)
        shared = expected * np.asarray([model.num_kv_heads / model.num_heads for model in models])
        others = {"no attention": 0 * expected, "one product per key/value head": shared}
        factors = {"the two products, scores and weighted values": 2.0, "three passes, forward once and backward twice": 3.0}
        hints = Hints(parts=parts, others=others, factors=factors, suggestion="12 L H D for each key: two products in every query head.")
        what = f"what {more[0]:g} more tokens of sequence add to flops_per_token (attention)"
        close(counted[:, longer] - counted[:, 0], expected, scale=counted[:, longer], what=what, hints=hints)


def judge_causal(observe: Any, sizes: Sequence[Sizes], options: Sequence[Options], **case: Any) -> None:
    """What the mask takes away."""
    ways = [(1, 1, FULL), (1, 1, (True, "none"))]
    counted, sequences, models = table(run(observe, sizes, options, ways, **case), 2)
    per_key = np.asarray([sum(items(model, oracle.ATTENTION, keys=1.0).values()) for model in models])
    T = sequences[:, 0]
    expected = per_key * (T - np.asarray([oracle.keys_of(int(t), True) for t in T]))
    others = {
        "nothing: causal is ignored": 0 * expected,
        "exactly half of attention, T / 2 keys instead of (T + 1) / 2": per_key * T / 2,
        "half of attention and the diagonal too, (T - 1) / 2 keys": per_key * (T + 1) / 2,
    }
    suggestion = "How many keys does the first token see, how many the last? A token sees itself: visible pairs T (T + 1) / 2."
    hints = Hints(others=others, suggestion=suggestion)
    close(counted[:, 0] - counted[:, 1], expected, scale=counted[:, 0], what="what the causal mask hides", hints=hints)


def judge_recomputation(observe: Any, sizes: Sequence[Sizes], options: Sequence[Options], causal: bool, **case: Any) -> None:
    """What selective and full recomputation add."""
    ways = [(1, 1, (causal, recompute)) for recompute in ("none", "selective", "full")]
    counted, sequences, models = table(run(observe, sizes, options, ways, **case), 3)
    for place, recompute in ((1, "selective"), (2, "full")):
        asked = zip(models, sequences[:, 0], strict=True)
        parts = columns([oracle.recomputed_flops(model, oracle.keys_of(int(T), causal), recompute) for model, T in asked])
        expected = np.sum(list(parts.values()), axis=0)
        heads = np.asarray([items(model, ("the head",))["the head"] / 3 for model in models])
        none = counted[:, 0]
        others = {
            "nothing": 0 * expected,
            "the head as well": expected + heads,
            "a third of everything": none / 3,
            "a backward as well": 3 * expected,
        }
        factors = {"a forward pass and a backward one": 3.0}
        hints = Hints(parts=parts, others=others, factors=factors, suggestion="What is made again is made once, at its forward cost.")
        close(counted[:, place] - none, expected, scale=counted[:, place], what=f"what recompute={recompute!r} adds", hints=hints)


def items(model: Model, names: Sequence[str], keys: float = 0.0) -> dict[str, float]:
    """Forward and backward of some products."""
    forward = oracle.forward_flops(model, keys)
    return {name: oracle.FORWARD_AND_BACKWARD * forward[name] for name in names if name in forward}


def columns(each: Sequence[dict[str, float]]) -> dict[str, Array]:
    """Every item over all models."""
    names = list(dict.fromkeys(name for entry in each for name in entry))
    return {name: np.asarray([entry.get(name, 0.0) for entry in each], np.float64) for name in names}


def close(got: Array, expected: Array, *, scale: Array, what: str, hints: Hints) -> None:
    """Compare differences of figures as exactly as the figures themselves were."""
    assert_close(got, np.asarray(expected, np.float64), allowed=RELATIVE * np.abs(scale), what=what, hints=hints)


def assert_refused(seen: Any, function: str, arguments: Sequence[str], *, why: str) -> None:
    """Each of the arguments raised ValueError."""
    for given, outcome in zip(arguments, seen.facts(0)["outcomes"], strict=True):
        if outcome == "ValueError":
            continue
        told = "returns as if nothing were wrong" if outcome == "nothing" else f"raises {outcome}"
        raise LawBroken(
            Message(
                seen=f"{function} {told} for {given}.",
                allowed="Expected: ValueError.",
                diagnosis=f"{given} is not refused with ValueError.",
                suggestion=why,
            )
        )
