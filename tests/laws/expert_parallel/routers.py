"""Router, capacity and balance loss: against numpy in fp64. None of them communicates."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from grader.numerics import Hints, assert_close, assert_equal, rounding_bound, unit_roundoff
from tests.laws.expert_parallel.oracle import (
    Array,
    balance_of,
    capacity_of,
    chosen,
    kept_of,
    logits_gradient,
    softmax,
    weights_of,
)  # fmt: skip
from tests.laws.sentences import broken

TINY = 2.0**-125  # of float32: what underflows may come out as 0, here and there
EXP_ROUNDINGS = 8  # of an exponential, a difference, a quotient, and the rounding of a logit's difference to the largest


def as_dtype(array: Array, dtype: str) -> Array:
    """Rounded to torch's dtype of that name."""
    return array.astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))


# --- capacity --------------------------------------------------------------------------------------------------------
def judge_capacities(observe: Any, cases: list[list[float]], **case: Any) -> None:
    """cases: [T, E, K, factor]."""
    returns = {"capacities": ("float64", (len(cases),))}
    seen = observe("capacities", transport="none", cases=cases, returns=returns, **case)
    got = seen.rank(0)["capacities"]
    for (num_tokens, num_experts, top_k, factor), value in zip(cases, got, strict=True):
        t, e, k = int(num_tokens), int(num_experts), int(top_k)
        right = capacity_of(t, e, k, factor)
        quotient = factor * t * k / e
        if value != right:
            raise broken(
                f"expert_capacity({t}, {e}, {k}, {factor:g}) returns {value:g}.",
                f"Expected: {right}, for {factor:g} · {t} · {k} / {e} = {quotient:g}, rounded up.",
                guess(value, right, t, e, k, factor),
                "The capacity is the exact quotient, rounded up, with no other limit (section 3.4).",
            )
    if seen.facts(0)["types"] != ["int"]:
        raise broken(f"expert_capacity returns {', '.join(seen.facts(0)['types'])}.", "Expected: int.", "A capacity is no int.")


def guess(value: float, right: int, t: int, e: int, k: int, factor: float) -> str:
    """What a wrong capacity may be."""
    exact = factor * t * k / e
    candidates = {
        "That is the quotient rounded down.": int(exact),
        "That is the quotient rounded to the nearest integer, not up.": round(exact),
        "That is without top_k: each of the K choices takes a place.": capacity_of(t, e, 1, factor),
        "That is more than 0: there is no other lower limit.": 1 if right == 0 else -1,
        "That is the number of tokens: there is no other upper limit.": t,
        "That is one too many: a quotient that is an integer stays, whatever factor · (T·K / E) gives in floats.": right + 1,
    }
    return next((words for words, candidate in candidates.items() if candidate == value), "The capacity is wrong.")


# --- route -----------------------------------------------------------------------------------------------------------
def draw_logits(rng: np.random.Generator, how: str, num_tokens: int, num_experts: int) -> Array:
    """plain: normal; tied: few integers; far: some probabilities are 0; close: equal in float32; crowded: all want the same few."""
    logits = rng.standard_normal((num_tokens, num_experts)) * 2
    if how == "tied":
        logits = rng.integers(-1, 2, (num_tokens, num_experts)).astype(np.float64)
    if how == "far":
        logits = -120.0 - 40.0 * rng.permuted(np.tile(np.arange(num_experts), (num_tokens, 1)), axis=1)
        logits[np.arange(num_tokens), rng.integers(0, num_experts, num_tokens)] = 3.0
    if how == "close":  # to float32 they are all the same
        logits = 1.0 + 2.0**-40 * rng.permuted(np.tile(np.arange(num_experts), (num_tokens, 1)), axis=1)
    if how == "crowded":
        logits = logits - 1.5 * np.arange(num_experts)
    return logits


def run_routing(
    observe: Any, num_tokens: int, num_experts: int, top_k: int, factor: float | None = None, *, dtype: str = "float32", how: str = "plain",
    renormalize: bool = False, layout: str = "plain", **case: Any,
) -> Any:  # fmt: skip
    """route of one rank's logits."""
    wide = "float64" if dtype == "float64" else "float32"

    def inputs(rng: np.random.Generator) -> dict[str, Array]:
        logits = as_dtype(draw_logits(rng, how, num_tokens, num_experts), dtype)
        gw, gp = (as_dtype(rng.standard_normal((num_tokens, width)), wide) for width in (top_k, num_experts))
        return {"logits": np.ascontiguousarray(logits.T) if layout == "transposed" else logits, "gw": gw, "gp": gp}

    of_choices, of_experts = (num_tokens, top_k), (num_tokens, num_experts)
    returns = {
        "experts": ("int64", of_choices), "weights": (wide, of_choices), "kept": ("bool", of_choices), "probabilities": (wide, of_experts),
        "dlogits": (dtype, of_experts), "logits after": (dtype, of_experts),
    }  # fmt: skip
    words: dict[str, Any] = {"renormalize": True} if renormalize else {}
    words |= {} if layout == "plain" else {"layout": layout}
    return observe("routing", transport="none", inputs=inputs, returns=returns, top_k=top_k, capacity_factor=factor, **words, **case)


def logits_of(seen: Any) -> Array:
    """As route got them."""
    logits = seen.input("logits", 0)
    return logits.T if seen.request.parameters.get("layout") == "transposed" else logits


def judge_experts(seen: Any) -> None:
    """Which experts, in which order."""
    logits, top_k = logits_of(seen), seen.request.parameters["top_k"]
    got, right = seen.rank(0)["experts"], chosen(logits, top_k)
    others = {
        "those of the smallest logits": np.argsort(logits.astype(np.float64), axis=1, kind="stable")[:, :top_k],
        "of equal logits the higher number first, not the lower": logits.shape[1] - 1 - chosen(np.flip(logits, 1), top_k),
        "the right experts, in the order of their numbers": np.sort(right, 1),
        "the choice by logits that were rounded to float32": chosen(logits.astype(np.float32), top_k),
        "the choice by probabilities, which are equal where logits are not": chosen(softmax(logits).astype(np.float32), top_k),
        "-1 in place of the expert of a dropped choice; kept alone says who is dropped": np.where(kept_here(seen, right), right, -1),
    }
    if np.all((got >= 0) & (got < logits.shape[1])):
        in_order = np.sort(got, 1)
        if np.any(in_order[:, 1:] == in_order[:, :-1]):
            others["of a choice with one expert twice: in the place of a logit that was taken stands one that isn't below all others"] = got
        if np.array_equal(np.take_along_axis(logits, got, 1), np.take_along_axis(logits, right, 1)):
            others["an expert whose logit is equal, and not the one with the lower number"] = got
    suggestion = "The largest logits, best first; of equal ones the lower number, which a stable sort keeps and topk doesn't promise."
    assert_equal(got, right, what="experts", hints=Hints(others=others, suggestion=suggestion))


def wide_of(seen: Any) -> str:
    """The dtype of probabilities."""
    return str(seen.request.return_of("weights", 0).dtype)


def judge_weights(seen: Any) -> None:
    """Probabilities and weights."""
    logits, case = logits_of(seen), seen.request.parameters
    probabilities, experts = softmax(logits), chosen(logits, case["top_k"])
    renormalize, wide = case.get("renormalize", False), wide_of(seen)
    relative = relative_error(logits, wide)
    wide_logits = logits.astype(np.float64)
    others = {
        "the sigmoid of one logit, where the softmax is over all experts": 1 / (1 + np.exp(-wide_logits)),
        "of a softmax over the tokens, not over the experts": softmax(wide_logits.T).T,
    }
    suggestion = f"The softmax over all E experts, in {wide}; logits of 16 bits are widened first."
    hints = Hints(others=others, suggestion=suggestion)
    allowed = relative * probabilities + TINY
    assert_close(seen.rank(0)["probabilities"], probabilities, allowed=allowed, what="probabilities", hints=hints)
    right = weights_of(probabilities, experts, renormalize=renormalize)
    others = {
        "the softmax over all experts, which renormalize divides": weights_of(probabilities, experts, renormalize=False),
        "the softmax over the chosen experts alone, as renormalize has it": weights_of(probabilities, experts, renormalize=True),
        "weights renormalized by the sum of the kept choices only": over_kept(seen, probabilities, experts),
        "weights renormalized by the sum of the kept choices only, with zeros for the others":
            over_kept(seen, probabilities, experts) * kept_here(seen, experts),
        "weights with zeros where a choice is dropped": right * kept_here(seen, experts),
    }  # fmt: skip
    others = {words: value for words, value in others.items() if not np.allclose(value, right)}
    allowed = 3 * np.take_along_axis(relative * np.ones_like(probabilities), experts, 1) * right + TINY
    suggestion = "Gather the probabilities at the chosen experts; dropping changes no weight (section 3.3)."
    assert_close(seen.rank(0)["weights"], right, allowed=allowed, what="weights", hints=Hints(others=others, suggestion=suggestion))


def relative_error(logits: Array, wide: str) -> Array:
    """Of a softmax in that dtype: an exponential is off by as many units as its argument has whole numbers; a sum by its terms."""
    below = logits.astype(np.float64)
    below = below.max(1, initial=0, keepdims=True) - below if below.size else below
    return unit_roundoff(wide) * (2 * below + 2 * logits.shape[1] + EXP_ROUNDINGS)


def kept_here(seen: Any, experts: Array) -> Array:
    """The right kept."""
    factor, (num_tokens, num_experts) = seen.request.parameters["capacity_factor"], logits_of(seen).shape
    capacity = None if factor is None else capacity_of(num_tokens, num_experts, experts.shape[1], factor)
    return kept_of(experts, num_experts, capacity)


def over_kept(seen: Any, probabilities: Array, experts: Array) -> Array:
    """A mistake: weights divided by the sum of what was kept."""
    weights = np.take_along_axis(probabilities, experts, 1)
    sums = (weights * kept_here(seen, experts)).sum(1, keepdims=True)
    return np.asarray(weights / np.where(sums == 0, 1, sums))


def judge_logits_gradient(seen: Any) -> None:
    """What reaches the logits from weights and probabilities."""
    logits, case = logits_of(seen), seen.request.parameters
    probabilities, experts = softmax(logits), chosen(logits, case["top_k"])
    learning = seen.facts(0)["is_learning"]
    if not all(learning):
        names = " and ".join(name for name, learns in zip(("weights", "probabilities"), learning, strict=True) if not learns)
        raise broken(
            f"{names} of the routing ask for no gradient.",
            "Expected: both do, where the logits do.",
            f"No gradient reaches the router from {names}: it would never learn.",
            "Gather the weights from the probabilities with their graph; only the choice of experts has none.",
        )
    gw, gp = (seen.input(name, 0).astype(np.float64) for name in ("gw", "gp"))
    renormalize = case.get("renormalize", False)
    right, size = logits_gradient(probabilities, experts, gw, gp, renormalize=renormalize)
    ends = (seen.request.return_of("dlogits", 0).dtype, wide_of(seen))
    allowed = 2 * rounding_bound(ends[0], size) + 4 * relative_error(logits, ends[1]) * size + TINY
    others = {
        "the gradient of the probabilities alone": logits_gradient(probabilities, experts, 0 * gw, gp, renormalize=renormalize)[0],
        "the gradient of the weights alone": logits_gradient(probabilities, experts, gw, 0 * gp, renormalize=renormalize)[0],
        "the gradient with renormalize left out": logits_gradient(probabilities, experts, gw, gp, renormalize=False)[0],
    }
    if renormalize:
        sums = np.take_along_axis(probabilities, experts, 1).sum(1, keepdims=True)
        constant, _ = logits_gradient(probabilities, experts, gw / sums, gp, renormalize=False)
        others["the gradient with the sum of the chosen ones, by which renormalize divides, taken for a constant"] = constant
    others = {words: value for words, value in others.items() if not np.allclose(value, right)}
    suggestion = "The softmax's gradient goes through all E probabilities; with renormalize through the sum as well."
    hints = Hints(others=others, suggestion=suggestion)
    assert_close(seen.rank(0)["dlogits"], right, allowed=allowed, what="the gradient of the logits", hints=hints)


def judge_kept(seen: Any) -> None:
    """Who is dropped."""
    logits, case = logits_of(seen), seen.request.parameters
    experts = chosen(logits, case["top_k"])
    num_tokens, num_experts = logits.shape
    right = kept_here(seen, experts)
    factor = case["capacity_factor"]
    capacity = None if factor is None else capacity_of(num_tokens, num_experts, experts.shape[1], factor)
    others = {"all kept, whatever the capacity": np.ones_like(right), "none kept": np.zeros_like(right)}
    if capacity is not None:
        others |= {
            "what is kept token by token, not first choices before second ones": by_token(experts, num_experts, capacity),
            "what is kept if the order of the tokens is reversed": kept_of(experts[::-1], num_experts, capacity)[::-1],
            "one more than the capacity for each expert": kept_of(experts, num_experts, capacity + 1),
            "one less than the capacity for each expert": kept_of(experts, num_experts, max(0, capacity - 1)),
            "a queue of its own for each of the K choices": np.concatenate(
                [kept_of(experts[:, k : k + 1], num_experts, capacity) for k in range(experts.shape[1])], 1),
            "what is kept by weight, the largest first, not in the order of the tokens": by_weight(softmax(logits), experts, capacity),
            "what is kept if a token loses all its choices as soon as one of them finds no room": right & right.all(1, keepdims=True),
        }  # fmt: skip
    suggestion = "All first choices queue up before all second ones, each in the order of the tokens; each expert takes its capacity."
    what = f"kept (capacity {'None' if capacity is None else capacity} of {num_tokens} tokens with {experts.shape[1]} choices each)"
    got = seen.rank(0)["kept"]
    # Of true and false, a wrong value is any other pattern's: so whole patterns are compared.
    for words, value in others.items():
        if np.array_equal(value, got) and not np.array_equal(value, right):
            seen_words = f"{what}: {int((got != right).sum())} of {right.size} values differ."
            raise broken(seen_words, "They must be equal.", f"It is {words}.", suggestion)
    assert_equal(got, right, what=what, hints=Hints(suggestion=suggestion))


def by_token(experts: Array, num_experts: int, capacity: int) -> Array:
    """A mistake: the queue goes token by token."""
    return kept_of(experts.reshape(-1, 1), num_experts, capacity).reshape(experts.shape)


def by_weight(probabilities: Array, experts: Array, capacity: int) -> Array:
    """Another rule: the heaviest choices are kept."""
    kept, weights = np.zeros(experts.shape, bool), np.take_along_axis(probabilities, experts, 1)
    for expert in range(probabilities.shape[1]):
        places = np.argwhere(experts == expert)
        order = np.argsort(-weights[experts == expert], kind="stable")[:capacity]
        kept[tuple(places[order].T)] = True
    return kept


def judge_logits_untouched(seen: Any) -> None:
    """The logits afterwards."""
    hints = Hints(suggestion="A softmax, a mask or a sort in place writes to the caller's logits.")
    assert_equal(seen.rank(0)["logits after"], logits_of(seen), what="the logits afterwards", hints=hints)


# --- balance ---------------------------------------------------------------------------------------------------------
def run_balance(
    observe: Any, num_tokens: int, num_experts: int, top_k: int, *, dtype: str = "float32", how: str = "plain", scale: float = 1.0,
    **case: Any,
) -> Any:  # fmt: skip
    """Of a given routing, most of whose choices are dropped, none of which its probabilities have made, and whose weights they are not."""

    def inputs(rng: np.random.Generator) -> dict[str, Array]:
        logits = draw_logits(rng, how, num_tokens, num_experts)
        weights, kept = as_dtype(rng.standard_normal((num_tokens, top_k)), dtype), rng.random((num_tokens, top_k)) < 0.3
        experts = chosen(draw_logits(rng, how, num_tokens, num_experts), top_k)
        return {"probabilities": as_dtype(softmax(logits), dtype), "experts": experts, "weights": weights, "kept": kept}

    returns = {"loss": (dtype, ()), "dprobabilities": (dtype, (num_tokens, num_experts))}
    return observe("balance", transport="none", inputs=inputs, returns=returns, scale=scale, **case)


def judge_balance(seen: Any) -> None:
    """The loss."""
    probabilities, experts, kept = (seen.input(name, 0) for name in ("probabilities", "experts", "kept"))
    wide = probabilities.astype(np.float64)
    (num_tokens, num_experts), top_k = wide.shape, experts.shape[1]
    loss, _ = balance_of(wide, experts)
    dtype = seen.request.return_of("loss", 0).dtype
    allowed = unit_roundoff(dtype) * (num_tokens + num_experts + EXP_ROUNDINGS) * abs(loss)
    others = {}
    if num_tokens:
        kept_shares = np.bincount(experts[kept].ravel(), minlength=num_experts) / experts.size
        best = np.bincount(experts[:, 0], minlength=num_experts) / num_tokens
        others = {
            "the loss of kept choices only, without those dropped": num_experts * (kept_shares * wide.mean(0)).sum(),
            "the loss of kept choices only, without those dropped, as shares of what is kept": num_experts
            * (kept_shares * experts.size / max(1, kept.sum()) * wide.mean(0)).sum(),
            "the loss of first choices only": num_experts * (best * wide.mean(0)).sum(),
            "the loss without the factor E": loss / num_experts,
            "the loss with shares of T instead of T·K": loss * top_k,
            "the loss with the weights' mean": 0.0,
        }
    others = {words: np.asarray(value) for words, value in others.items() if abs(value - loss) > 1e-6}
    hints = Hints(others=others, factors={"top_k": top_k, "E": num_experts, "T": max(1, num_tokens)},
                  suggestion="E · Σ share · mean probability, over the choices before anything is dropped (section 6).")  # fmt: skip
    assert_close(seen.rank(0)["loss"], np.asarray(loss), allowed=allowed, what=f"the balance loss of {num_tokens} tokens", hints=hints)


def judge_balance_gradient(seen: Any) -> None:
    """Its gradient."""
    probabilities, experts = seen.input("probabilities", 0).astype(np.float64), seen.input("experts", 0)
    if not seen.facts(0)["has_graph"]:
        raise broken("No gradient comes to the probabilities.", "Expected: one does, also without tokens, of zeros.",
                     "The balance loss has no graph: no gradient reaches the router.", "Only the counts have none.")  # fmt: skip
    right = balance_of(probabilities, experts)[1] * seen.request.parameters["scale"]
    dtype = seen.request.return_of("loss", 0).dtype
    allowed = unit_roundoff(dtype) * (EXP_ROUNDINGS + len(experts)) * np.abs(right)
    of_chosen = np.zeros_like(right)
    np.put_along_axis(of_chosen, experts, np.take_along_axis(right, experts, 1), 1)
    others = {"the gradient through the chosen experts' probabilities alone; the others' count in the mean too": of_chosen}
    hints = Hints(factors={"T": max(1, len(experts)), "E": probabilities.shape[1], "top_k": experts.shape[1]}, others=others,
                  suggestion="Of E · Σ f · P only P, the mean probability, has a gradient: E · f / T for each token.")  # fmt: skip
    assert_close(seen.rank(0)["dprobabilities"], right, allowed=allowed, what="the gradient of the probabilities", hints=hints)
