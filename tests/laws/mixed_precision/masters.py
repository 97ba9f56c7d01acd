"""The judgements on master weights. Oracles: SGD and AdamW written out in float64, and ml_dtypes' rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.numerics import Hints, assert_close, assert_equal, unit_roundoff
from tests.laws.mixed_precision.formats import Array, as_format
from tests.laws.sentences import broken

NUM_PARAMETERS, SIZE = 3, 8
RATE, DECAY, BETA_1, BETA_2, EPSILON = 0.01, 0.1, 0.9, 0.999, 1e-8  # of the probe's optimizers
FLOAT32 = 2.0**-24
LOST = "what stood there before: every step rounds its update away, as if masters were made from the rounded weights"


def gradients(num_steps: int) -> dict[str, Any]:
    """Parameters w0, w1, w2 and a gradient for each and each step, in float32."""

    def draw(rng: np.random.Generator) -> dict[str, Array]:
        weights = {f"w{index}": rng.uniform(0.5, 2, SIZE).astype(np.float32) for index in range(NUM_PARAMETERS)}
        return weights | {"g": rng.standard_normal((num_steps, NUM_PARAMETERS, SIZE)).astype(np.float32)}

    return {"transport": "none", "inputs": draw}


def given_to(seen: Any, dtype: str) -> tuple[Array, Array]:
    """Parameters (P, n) and gradients (steps, P, n) as 16 bits hold them."""
    weights = np.stack([seen.inputs[f"w{index}"] for index in range(NUM_PARAMETERS)]).astype(np.float64)
    return as_format(weights, dtype), as_format(seen.inputs["g"].astype(np.float64), dtype)


# --- the oracle ------------------------------------------------------------------------------------------------------
def optimised(weights: Array, steps: Array, optimizer: str, missing: Sequence[Sequence[int]], frozen: Sequence[int] = ()) -> Array:
    """Weights after each step, (steps, P, n): SGD, momentum (v = 0.9 v + g) or AdamW (Loshchilov and Hutter 2019, algorithm 2)."""
    w, first, second, counts = weights.copy(), np.zeros_like(weights), np.zeros_like(weights), np.zeros(len(weights))
    history = []
    for step, g in enumerate(steps):
        for index in range(len(w)):
            if index in missing[step] or index in frozen:
                continue
            counts[index] += 1
            if optimizer == "adamw":
                w[index] *= 1 - RATE * DECAY
                first[index] = BETA_1 * first[index] + (1 - BETA_1) * g[index]
                second[index] = BETA_2 * second[index] + (1 - BETA_2) * g[index] ** 2
                m, v = first[index] / (1 - BETA_1 ** counts[index]), second[index] / (1 - BETA_2 ** counts[index])
                w[index] -= RATE * m / (np.sqrt(v) + EPSILON)
            else:
                first[index] = (0.9 if optimizer == "momentum" else 0.0) * first[index] + g[index]
                w[index] -= RATE * first[index]
        history.append(w.copy())
    return np.stack(history)


# --- laws ------------------------------------------------------------------------------------------------------------
def judge_small_updates(observe: Any, *, dtype: str, num_steps: int, **case: Any) -> None:
    """Weights move by the sum of updates of which none reaches half of their spacing."""
    u = unit_roundoff(dtype)
    rate = u / 4  # the smallest weight is 0.5 with a spacing of u: half of it is twice the largest update

    def draw(rng: np.random.Generator) -> dict[str, Array]:
        signs = rng.choice([-1, 1], 64)
        return {"w0": rng.uniform(1, 2, 64).astype(np.float32), "g": (signs * rng.uniform(0.5, 1, 64)).astype(np.float32)}

    seen = observe(
        "many_small_steps",
        transport="none",
        inputs=draw,
        returns={"w": ("float64", (64,))},
        dtype=dtype,
        num_steps=num_steps,
        learning_rate=rate,
        **case,
    )
    before, g = (as_format(seen.inputs[name].astype(np.float64), dtype) for name in ("w0", "g"))
    right = before - num_steps * rate * g
    allowed = u * np.abs(right) * 2 + num_steps * FLOAT32 * 4  # the last rounding to 16 bits; one of float32 for each step
    advice = "Is the update made on the fp32 master, and is the master the one of the step before?"
    what = f"{dtype} weights after {num_steps} small updates, each {rate:.2g} times the gradient"
    assert_close(seen.rank(0)["w"], right, allowed=allowed, what=what, hints=Hints(others={LOST: before}, suggestion=advice))


def run_steps(
    observe: Any,
    *,
    dtype: str,
    optimizer: str,
    num_steps: int,
    missing: Sequence[Sequence[int]] | None = None,
    frozen: Sequence[int] = (),
    **case: Any,
) -> Any:
    """Some steps of an optimizer over masters, with gradients missing here and there."""
    num_masters = NUM_PARAMETERS - len(frozen)
    returns = {"weights": ("float64", (num_steps, NUM_PARAMETERS, SIZE)), "masters": ("float64", (num_steps, num_masters, SIZE))}
    return observe(
        "master_steps",
        returns=returns,
        dtype=dtype,
        optimizer=optimizer,
        num_steps=num_steps,
        frozen=list(frozen),
        missing=[list(each) for each in missing or [[]] * num_steps],
        **gradients(num_steps),
        **case,
    )


def judge_masters(seen: Any) -> None:
    """Masters take the optimizer's steps in float32, parameter for parameter."""
    case = seen.request.parameters
    weights, steps = given_to(seen, case["dtype"])
    right = optimised(weights, steps, case["optimizer"], case["missing"], case["frozen"])
    kept = [index for index in range(NUM_PARAMETERS) if index not in case["frozen"]]
    allowed = len(steps) * 16 * FLOAT32 * (1 + np.abs(right[:, kept]))  # some roundings of float32 in each step
    advice = "Are masters and moments float32, and does each gradient arrive once?"
    what = f"the masters of {case['dtype']} parameters after each step of {case['optimizer']}"
    assert_close(seen.rank(0)["masters"], right[:, kept], allowed=allowed, what=what, hints=Hints(suggestion=advice))
    dtypes = seen.facts(0)["master_dtypes"]
    if dtypes != ["float32"]:
        raise broken(
            f"The tensors in param_groups are {', '.join(dtypes)}.",
            "Expected: float32 masters.",
            "The masters are not float32.",
            "param_groups are those of the inner optimizer, which was made with the masters.",
        )


def judge_rounding(seen: Any) -> None:
    """Each parameter is its master rounded, step after step, and the tensor that it was."""
    case, answer = seen.request.parameters, seen.rank(0)
    kept = [index for index in range(NUM_PARAMETERS) if index not in case["frozen"]]
    hints = Hints(suggestion="copy_ rounds to nearest; it comes after the optimizer's step.")
    what = f"the {case['dtype']} parameters, against their masters rounded"
    assert_equal(answer["weights"][:, kept], as_format(answer["masters"], case["dtype"]), what=what, hints=hints)
    if not seen.facts(0)["same_tensors"]:
        raise broken(
            "A parameter's memory is another one than before.",
            "Expected: the model's own tensors are written to.",
            "Parameters are replaced by other tensors.",
            "Write into the parameter with copy_.",
        )


def judge_missing(seen: Any) -> None:
    """Where no gradient came, parameter and master have the bits of the step before; frozen ones have no master."""
    case, answer = seen.request.parameters, seen.rank(0)
    weights, _ = given_to(seen, case["dtype"])
    before = np.concatenate([weights[None], answer["weights"][:-1]])
    for step, absent in enumerate(case["missing"]):
        for index in [*absent, *case["frozen"]]:
            what = f"parameter {index} after step {step}, which gave it no gradient"
            assert_equal(answer["weights"][step, index], before[step, index], what=what)
    expected = NUM_PARAMETERS - len(case["frozen"])
    if seen.facts(0)["num_masters"] != expected:
        raise broken(
            f"{NUM_PARAMETERS} parameters, {len(case['frozen'])} of them frozen, have {seen.facts(0)['num_masters']} masters.",
            f"Expected: {expected}.",
            "Frozen parameters have masters.",
            "Leave out those that don't require grad.",
        )


def judge_skipped_decay(observe: Any, dtype: str, **case: Any) -> None:
    """A step after zero_grad, with no new gradient, changes nothing: no decay, no stale gradient."""
    names = ("weights_before", "masters_before", "weights_after", "masters_after")
    returns = dict.fromkeys(names, ("float64", (NUM_PARAMETERS, SIZE)))
    seen = observe("skipped_decay", returns=returns, dtype=dtype, **gradients(1), **case)
    for name in ("weights", "masters"):
        hints = Hints(suggestion="After zero_grad neither parameters nor masters have a gradient, and whoever has none is left alone.")
        what = f"the {name} after a step without gradients"
        assert_equal(seen.rank(0)[f"{name}_after"], seen.rank(0)[f"{name}_before"], what=what, hints=hints)


def judge_scheduled(observe: Any, *, dtype: str, rates: Sequence[Sequence[float]], **case: Any) -> None:
    """SGD with a rate for each group, changed before each step."""
    returns = {"masters": ("float64", (len(rates), NUM_PARAMETERS, SIZE))}
    seen = observe("scheduled", returns=returns, dtype=dtype, rates=[list(each) for each in rates], **gradients(len(rates)), **case)
    if seen.facts(0)["num_groups"] != NUM_PARAMETERS:
        raise broken(
            f"Of {NUM_PARAMETERS} groups, each with a rate of its own, param_groups has {seen.facts(0)['num_groups']}.",
            f"Expected: {NUM_PARAMETERS}.",
            "The groups are not those that were given.",
            "For each group that is given make one, with its settings and with masters as params.",
        )
    weights, steps = given_to(seen, dtype)
    right = weights - np.cumsum(np.asarray(rates)[:, :, None] * steps, axis=0)
    allowed = len(rates) * 8 * FLOAT32 * (1 + np.abs(right))
    hints = Hints(suggestion="Hand each group's settings on to make_optimizer, and let param_groups be the inner optimizer's own list.")
    assert_close(seen.rank(0)["masters"], right, allowed=allowed, what="the masters under learning rates that change", hints=hints)


def judge_resumed(observe: Any, *, dtype: str, optimizer: str, num_steps: int, save_at: int, **case: Any) -> None:
    """Saving and loading changes no bit of what follows."""
    shape = (2 * NUM_PARAMETERS, SIZE)
    returns = {
        "in_one_go": ("float64", shape),
        "resumed": ("float64", shape),
        "once_more": ("float64", shape),
        "loaded": ("float64", shape := (NUM_PARAMETERS, SIZE)),
        "checkpoint": ("float64", shape),
    }
    seen = observe(
        "resumed", returns=returns, dtype=dtype, optimizer=optimizer, num_steps=num_steps, save_at=save_at, **gradients(num_steps), **case
    )
    answer = seen.rank(0)
    assert_equal(
        answer["loaded"],
        answer["checkpoint"],
        what="the parameters after load_state_dict",
        hints=Hints(
            others={"0, as the parameters were before loading: their masters are not in the state dict": np.zeros_like(answer["loaded"])},
            suggestion="They are the rounded images of the masters as they were saved: is the state dict a copy, or does it train on?",
        ),
    )
    advice = (
        "Are the masters in the state dict, or made again from the rounded weights? Is it a copy, or does it change with further steps?"
    )
    what = f"parameters and masters, loaded and resumed after step {save_at} of {num_steps} with {optimizer}"
    assert_equal(answer["resumed"], answer["in_one_go"], what=what, hints=Hints(suggestion=advice))
    advice = "An optimizer takes moments in as they are, and its steps change them in the caller's state dict: give it a copy."
    what = "parameters and masters, gone back to the same state dict a second time"
    assert_equal(answer["once_more"], answer["in_one_go"], what=what, hints=Hints(suggestion=advice))


def judge_held(observe: Any, dtype: str, **case: Any) -> None:
    """Of one parameter: a master and Adam's two moments, and nothing else of its size in float32."""
    facts = observe("held_between_steps", transport="none", dtype=dtype, size=997, **case).facts(0)
    if facts["num_float32"] != 3 or not facts["master_gradient_dropped"]:
        raise broken(
            f"After a step with Adam {facts['num_float32']} float32 tensors of the parameter's size are alive, "
            f"{4 * facts['num_float32']} bytes per number"
            f"{'' if facts['master_gradient_dropped'] else ', one of them the master’s gradient'}.",
            "Allowed: 3, the master and two moments, 12 bytes.",
            "More is held between steps than masters and moments." if facts["num_float32"] > 3 else "Masters or moments are not float32.",
            "Drop the masters' gradients, and what they were made in, when the step is done.",
        )
