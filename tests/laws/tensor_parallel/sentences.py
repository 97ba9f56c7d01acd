"""What to try where a model in slices differs from the whole one: what else its ranks returned says where to look."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def about_outputs(strange: list[str], *, are_logits: bool) -> str:
    """Logits or a loss that differ; strange: the weights that did not start as this rank's part."""
    if strange:
        more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
        held = f"Before the first step already {strange[0]}{more} isn't this rank's part of the whole"
        return f"{held}, so neither logits nor loss can be right: which rows or columns does it hold?"
    if are_logits:
        return "Every weight starts right, and the logits are wrong before the loss is: compare layer by layer, from the embedding on."
    return "The logits are right: does padding, an ignored target or another rank's maximum take part in the loss?"


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
