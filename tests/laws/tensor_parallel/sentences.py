"""What to try where a model in slices differs from the whole one: what else its ranks returned says where to look."""

from __future__ import annotations

import numpy as np

from tests.laws.tensor_parallel.functions import Array, part_of


def about_outputs(strange: list[str], *, are_logits: bool) -> str:
    """Logits or a loss that differ; strange: the weights that did not start as this rank's part."""
    if strange:
        more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
        held = f"Before the first step already {strange[0]}{more} does not hold this rank's part of the whole"
        return f"{held}, so neither logits nor loss can be right: which rows or columns does it hold?"
    if are_logits:
        return "Every weight starts right, and the logits are wrong before the loss is: compare layer by layer, from the embedding on."
    return "The logits are right: does padding, an ignored target or another rank's maximum take part in the loss?"


def rows_held(got: Array, whole: Array) -> str:
    """Which rows of a whole weight a part is made of, if of some."""
    asks = "A layer takes its part of the layer that it replaces."
    if got.ndim != 2 or got.shape[1:] != whole.shape[1:]:
        return asks
    known = {row.tobytes(): number for number, row in enumerate(whole)}
    rows = [known.get(row.tobytes(), -1) for row in got]
    if -1 in rows:
        return asks
    starts = [i for i, row in enumerate(rows) if i == 0 or row != rows[i - 1] + 1]
    spans = [f"{rows[a]}:{rows[b - 1] + 1}" for a, b in zip(starts, [*starts[1:], len(rows)], strict=True)]
    return f"It holds rows {', '.join(spans[:8])}{', …' if len(spans) > 8 else ''} of the whole. {asks}"


def addend_of(ranks: list[Array], place: int, right: Array, allowed: float, times: int) -> dict[str, Array]:
    """A whole weight's gradient that lacks the sum over the ranks, which the ranks' values then add up to; or has it once too often."""
    n = len(ranks)
    if n == 1:
        return {}
    again = {"that in which the first backward's gradient is added up over the ranks again": right * (n + 1) / 2} if times == 2 else {}
    if not np.allclose(np.sum(ranks, axis=0), right, rtol=0, atol=allowed * n):
        return again
    return {"this rank's addend of it: the ranks' values add up to what is expected": ranks[place]}


def other_embeddings(rows: list[Array], tokens: Array) -> dict[str, Array]:
    """Sums over the ranks to which those that don't own a token add more than zeros; rows: each rank's."""
    shifted = [tokens - place * len(own) for place, own in enumerate(rows)]
    own_first = [np.where((shift >= 0) & (shift < len(own)), shift, 0) for shift, own in zip(shifted, rows, strict=True)]
    clamped = [shift.clip(0, len(own) - 1) for shift, own in zip(shifted, rows, strict=True)]
    wrapped = [shift % len(own) for shift, own in zip(shifted, rows, strict=True)]
    ways = {"row 0 of every rank that doesn't own the token": own_first, "rows of other ranks, the token clamped to them": clamped,
            "rows of other ranks, at the token modulo their number": wrapped}  # fmt: skip
    return {
        f"that of the owner plus {words}": np.sum([own[i] for own, i in zip(rows, at, strict=True)], axis=0) for words, at in ways.items()
    }


def about_words(got: Array, right: Array, tokens: Array, num_rows: int) -> str:
    """Which words an embedding has wrong, if it is some of them."""
    asks = "Is the token shifted by r·P, and does every rank but the owner add zeros?"
    if got.shape != right.shape:
        return asks
    words = np.unique(tokens[np.any(got != right, axis=-1)])
    if len(words) in (0, len(np.unique(tokens))):
        return asks
    places = ", ".join(f"{word} (row {word % num_rows} of rank {word // num_rows})" for word in words[:4])
    return f"Wrong are {len(words)} words of the vocabulary: {places}{', …' if len(words) > 4 else ''}. {asks}"


def own_rows(tokens: Array, gradient: Array, like: Array, place: int) -> Array:
    """The gradient of a rank's rows by its own tokens alone."""
    found, row = np.zeros(like.shape), tokens - place * len(like)
    is_own = (row >= 0) & (row < len(like))
    np.add.at(found, row[is_own], gradient[is_own])
    return found


def unjoined(kind: str, name: str, axis: int | None, arrays: tuple[Array, ...], place: int, n: int) -> dict[str, Array]:
    """What a sum over the ranks left out, or one too many, makes of a value; arrays: x, weight, bias and gradient of the whole layer."""
    x, weight, bias, gradient = arrays
    if n == 1:
        return {}
    if name == "dbias" and axis == 0:
        return {"the sum of the ranks' gradients, which belong to different outputs": gradient.reshape(-1, n, len(bias) // n).sum((0, 1))}
    if name == "dbias":
        return {"that of this rank's own tokens": part_of(gradient, 1, place, n).sum((0, 1))} if gradient.shape[1] % n == 0 else {}
    if (kind, name) == ("Column", "dx"):
        addend = part_of(gradient, -1, place, n) @ part_of(weight, 0, place, n)
    elif (kind, name) == ("Row", "y"):
        addend = part_of(x, -1, place, n) @ part_of(weight, 1, place, n).T
    else:
        return {}
    own = addend if axis is None else part_of(addend, axis, place, n)
    return {"this rank's own addend, which no sum over the ranks has joined": own} | (
        {"this rank's own addend and the bias, which no sum over the ranks has joined": own + bias} if name == "y" else {}
    )
