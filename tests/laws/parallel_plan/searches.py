"""The laws of candidates, choice and reasons: what is possible, whether the chosen plan fits and is fast, and why it looks as it does."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

import numpy as np

from grader.errors import SubmissionError
from grader.records import Limits
from grader.simulator import Plan
from tests.laws.parallel_plan import space
from tests.laws.parallel_plan.cases import Case, Draw, cases_of, in_words, inputs_of, records_of
from tests.laws.parallel_plan.judging import RELATIVE, assert_nothing_borrowed
from tests.laws.parallel_plan.pairs import Pair, Wanted, drawn, records
from tests.laws.sentences import broken

AXES = ("tp", "cp", "dp", "pp", "ep")
MOST_TOLD = 4  # values in a sentence
MOST_STAGES = 8  # of a pipeline that is played beside a formula
SEARCH_CPU_S = 10  # section 1: for each pair
ALLOWED = 1.10  # of the best candidate's step
AGREEMENT = 0.10  # of the formulas with the simulator
RULES = {
    "world": "t c d p = the cluster's GPUs", "batch": "d b M = global_batch", "heads": "t divides G and F", "layers": "p <= L",
    "sequence": "2c divides T, and t divides a rank's tokens under sequence_parallel", "experts": "e divides d and E",
    "schedule": "1f1b with one chunk, or interleaved with p > 1, p v dividing L and p dividing M", "sharding": "ZeRO at most 1 if p > 1",
}  # fmt: skip


# --- candidates ------------------------------------------------------------------------------------------------------
def spoilt(draw: Draw, turn: int) -> Draw:
    """A case that breaks a few rules, or none: first none, then in each turn another, so that none is left to the lot; then any two."""

    def drawn_case(rng: np.random.Generator) -> Case:
        case = draw(rng)
        plan, model = case["plan"], case["model"]
        ways = [
            lambda: None,
            lambda: plan.update(dp=plan["dp"] + plan["ep"]),
            lambda: plan.update(num_micro_batches=plan["num_micro_batches"] + plan["pp"]),
            lambda: model.update(mlp_size=model["mlp_size"] + 1),
            lambda: model.update(num_kv_heads=1, num_heads=model["num_heads"]),
            lambda: plan.update(pp=model["num_layers"] + 1, chunks=1, schedule="1f1b"),
            lambda: model.update(sequence=model["sequence"] + 1),
            lambda: model.update(sequence=model["sequence"] + plan["tp"] * plan["cp"]),
            lambda: model.update(num_experts=model["num_experts"] + 1),
            lambda: plan.update(ep=plan["ep"] * 2),
            lambda: plan.update(schedule="interleaved"),
            lambda: plan.update(schedule="1f1b"),
            lambda: plan.update(schedule="gpipe", chunks=1),
            lambda: plan.update(chunks=plan["chunks"] + 1),
            lambda: model.update(num_layers=model["num_layers"] + 1),
            lambda: plan.update(num_micro_batches=plan["num_micro_batches"] + 1),
            lambda: plan.update(zero_stage=3),
            lambda: plan.update(zero_stage=2),
        ]
        for way in [turn] if turn < len(ways) else rng.integers(len(ways), size=2):
            ways[int(way)]()
        return case

    return drawn_case


def judge_rules(observe: Any, draws: Sequence[Draw], num_turns: int, **case: Any) -> None:
    """broken_rules names exactly the rules that each plan breaks."""
    asked = [spoilt(draw, turn) for turn in range(num_turns) for draw in draws]
    seen = observe("rules", transport="none", inputs=inputs_of(asked), **case)
    found, told = cases_of(seen), seen.facts(0)["rules"]
    expected = [space.broken_rules(*records_of(each)) for each in found]
    wrong = [place for place, rules in enumerate(told) if set(rules) != expected[place]]
    if not wrong:
        return
    place = wrong[0]
    missed = {rule for each in wrong for rule in expected[each] - set(told[each])}
    extra = {rule for each in wrong for rule in set(told[each]) - expected[each]}
    diagnosis = [f"Not noticed: {', '.join(f'{rule} ({RULES[rule]})' for rule in sorted(missed))}."] * bool(missed)
    diagnosis += [f"Noticed though they hold: {', '.join(f'{rule} ({RULES.get(rule, rule)})' for rule in sorted(extra))}."] * bool(extra)
    plan, model = found[place]["plan"], found[place]["model"]
    words = f"schedule {plan['schedule']}, {plan['chunks']} chunks, sequence {model['sequence']}, {model['num_kv_heads']} key/value heads"
    raise broken(
        f"broken_rules gives {sorted(told[place])} for {in_words(found[place])}; {words}; {len(wrong)} of {len(told)} cases are off.",
        f"Expected: {sorted(expected[place])}.",
        " ".join(diagnosis),
        "Each rule of section 6 is judged by itself: a plan may break several.",
    )


def judge_candidates(observe: Any, pairs: Sequence[Pair], **case: Any) -> None:
    """candidate_plans yields exactly section 6's plans, each once."""
    seen = observe("candidates", transport="none", inputs=inputs_of([drawn(pair) for pair in pairs]), **case)
    for pair, found in zip(cases_of(seen), seen.facts(0)["found"], strict=True):
        model, cluster = records(pair)
        got = [json.dumps(asdict(Plan(**json.loads(plan))), sort_keys=True) for plan in found]
        expected = {json.dumps(asdict(plan), sort_keys=True) for plan in space.candidates(model, cluster)}
        lacking, extra, twice = expected - set(got), set(got) - expected, len(got) - len(set(got))
        if not (lacking or extra or twice):
            continue
        told = []
        if lacking:
            told += [f"{len(lacking)} are missing, e.g. {_short(min(lacking))}.", _only_in(lacking, expected - lacking, "missing")]
        if extra:
            told += [f"{len(extra)} are no candidates, e.g. {_short(min(extra))}.", _only_in(extra, expected, "too many")]
        if twice:
            told.append(f"{twice} come twice.")
        raise broken(
            f"candidate_plans: {len(got)} plans for {cluster.num_gpus} GPUs, {model.num_layers} layers, a batch of {model.global_batch}.",
            f"Expected: {len(expected)}, each once.",
            " ".join(part for part in told if part),
            "Section 6: go through its list, field by field of a Plan.",
        )


def _short(plan: str) -> str:
    fields = json.loads(plan)
    usual = asdict(Plan())
    shown = [name for name in fields if fields[name] != usual[name] or name == "zero_stage"]
    return "Plan(" + ", ".join(f"{name}={fields[name]!r}" for name in shown) + ")"


def _only_in(plans: set[str], others: set[str], what: str) -> str:
    """A field, or two together, in which these plans are unlike all others."""
    some, rest = [json.loads(plan) for plan in plans], [json.loads(plan) for plan in others]
    for number in (1, 2):
        for names in combinations(some[0], number):
            values = {tuple(plan[name] for name in names) for plan in some}
            if len(values) <= MOST_TOLD and not values & {tuple(plan[name] for name in names) for plan in rest}:
                each = [" and ".join(f"{name} {value}" for name, value in zip(names, row, strict=True)) for row in sorted(values, key=str)]
                return f"Those {what} are exactly those with {', or '.join(each)}."
    return ""


# --- choice ----------------------------------------------------------------------------------------------------------
def _chosen(observe: Any, pair: Pair, **case: Any) -> Any:
    seen = observe("choice", transport="none", inputs=inputs_of([drawn(pair)]), limits=Limits(cpu_s=SEARCH_CPU_S), **case)
    assert_nothing_borrowed(seen, "choose_plan")
    return seen.facts(0)["chosen"][0]


def _plan_of(chosen: Any, name: str) -> Plan:
    if "refusal" in chosen:
        constraint, needed = chosen["refusal"]
        raise broken(
            f"choose_plan refuses {name}: NoPlan, {constraint}.",
            "Expected: a plan.",
            f"There are plans that fit; it says that {needed} bytes are needed.",
            "Which candidate holds the least? Compare its total_bytes with memory_bytes.",
        )
    return Plan(**chosen["plan"])


def judge_fits(observe: Any, name: str, pair: Pair, **case: Any) -> None:
    """The plan is a candidate and fits, by the formulas and in the simulator."""
    (model, cluster), plan = pair, _plan_of(_chosen(observe, pair, **case), name)
    what = f"choose_plan for {name} gives {_short(json.dumps(asdict(plan)))}"
    rules = space.broken_rules(model, cluster, plan)
    if rules:
        told = ", ".join(f"{rule} ({RULES[rule]})" for rule in sorted(rules))
        raise broken(f"{what}.", "Expected: a plan that breaks no rule.", f"It breaks {told}.", "Choose among candidate_plans.")
    if plan not in space.candidates(model, cluster):
        raise broken(f"{what}.", "Expected: one of section 6's candidates.", "It breaks no rule and is no candidate.", "See section 6.")
    held = max(sum(space.RIGHT.fullest(model, plan)), space.simulated_bytes(model, plan))
    if held > cluster.memory_bytes * (1 + RELATIVE):
        raise broken(
            f"{what}, whose fullest GPU holds {held / 1e9:.2f} GB.",
            f"Allowed: {cluster.memory_bytes / 1e9:.2f} GB of memory.",
            "The plan does not fit.",
            "Only candidates whose total_bytes are at most memory_bytes may be chosen.",
        )


def judge_speed(observe: Any, name: str, pair: Pair, **case: Any) -> None:
    """In the simulator the plan's step is at most 10 % longer than the best candidate's."""
    (model, cluster), plan = pair, _plan_of(_chosen(observe, pair, **case), name)
    best_s, best = space.best_simulated(model, cluster)
    step_s = space.simulated_s(model, cluster, plan)
    if step_s <= ALLOWED * best_s:
        return
    ours, theirs = asdict(plan), asdict(best)
    differ = ", ".join(f"{key} {ours[key]} in place of {theirs[key]}" for key in ours if ours[key] != theirs[key])
    raise broken(
        f"choose_plan for {name} gives {_short(json.dumps(ours))}: {step_s:.4g} s in the simulator.",
        f"Allowed: {ALLOWED - 1:.0%} more than the best candidate's {best_s:.4g} s.".replace("%", " %"),
        f"It takes {step_s / best_s:.2f} times as long as the best candidate, which differs by {differ}.",
        "Estimate both plans: which of compute_s, exposed_communication_s and bubble_s makes yours look faster than it is?",
    )


def judge_refusal(observe: Any, pairs: dict[str, Pair], **case: Any) -> None:
    """NoPlan says what stands in the way and what would be needed."""
    for name, pair in pairs.items():
        model, cluster = pair
        priced = space.by_formula(model, cluster)
        needed = min((held for _, held, _, _ in priced), default=None)
        states = min((held for _, _, held, _ in priced), default=None)
        constraint = "shape" if states is None else "states" if states > cluster.memory_bytes else "activations"
        why = "Section 7: shape if there is no candidate; else compare the least states_bytes, then the least total_bytes, with the memory."
        allowed = f"Expected: NoPlan with {constraint!r} and {'None' if needed is None else f'{needed:.6g} bytes'}."
        try:
            chosen = _chosen(observe, pair, **case)
        except SubmissionError as fallen:
            raise broken(f"choose_plan for {name}: {fallen.message.seen}", allowed, "That is no refusal.", why) from fallen
        if "plan" in chosen:
            told = f"choose_plan returns {_short(json.dumps(chosen['plan']))} for {name}."
            raise broken(told, allowed, "No candidate fits, and none is refused.", why)
        got, got_bytes = chosen["refusal"]
        told = f"choose_plan raises NoPlan with {got!r} and {got_bytes if got_bytes is None else f'{got_bytes:.6g} bytes'} for {name}."
        if got != constraint:
            raise broken(told, allowed, f"The constraint is {constraint}, not {got}.", why)
        if (got_bytes is None) != (needed is None) or (needed is not None and not math.isclose(got_bytes, needed, rel_tol=RELATIVE)):
            raise broken(told, allowed, "needed_bytes is not the least total_bytes of all candidates.", why)


# --- reasons ---------------------------------------------------------------------------------------------------------
def expected_reasons(pair: Pair, plan: Plan) -> dict[str, str]:
    """By the handout's formulas."""
    model, cluster = pair
    own_s = sum(space.RIGHT.step(model, cluster, plan)[:3])
    reasons = {}
    for axis in AXES:
        if getattr(plan, axis) == 1:
            continue
        without = [step_s for candidate, _, _, step_s in space.by_formula(model, cluster) if getattr(candidate, axis) == 1]
        best_s = min(without, default=None)
        if best_s is None:
            reasons[axis] = "shape"
        else:
            reasons[axis] = "memory" if math.isinf(best_s) else "time" if best_s > own_s else "none"
    return reasons


def judge_reasons(observe: Any, wanted: Sequence[Wanted], **case: Any) -> None:
    """binding_constraints of the fastest candidate that has the wanted sizes, of each pair."""
    asked = [(pair, _fastest_having(pair, sizes)) for pair, sizes in wanted]
    draws = [lambda _rng, pair=pair, plan=plan: drawn(pair)(_rng) | {"plan": asdict(plan)} for pair, plan in asked]
    seen = observe("reasons", transport="none", inputs=inputs_of(draws), **case)
    for (pair, plan), got in zip(asked, seen.facts(0)["reasons"], strict=True):
        expected = expected_reasons(pair, plan)
        if got == expected:
            continue
        wrong = [axis for axis in AXES if got.get(axis) != expected.get(axis)]
        told = ", ".join(f"{axis}: {got.get(axis, 'no key')} in place of {expected.get(axis, 'no key')}" for axis in wrong)
        raise broken(
            f"binding_constraints of {_short(json.dumps(asdict(plan)))} on {pair[1].num_gpus} GPUs gives {got}.",
            f"Expected: {expected}.",
            f"Off: {told}.",
            "Each axis above 1 has a reason: of the candidates with 1 there none exists, none fits, the fastest is slower, or else none.",
        )


def _fastest_having(pair: Pair, sizes: dict[str, int]) -> Plan:
    having = [one for one in space.by_formula(*pair) if all(getattr(one[0], axis) == size for axis, size in sizes.items())]
    return min(having, key=lambda one: one[3])[0]


# --- the simulator ---------------------------------------------------------------------------------------------------
def judge_agreement(observe: Any, pairs: Sequence[Pair], what: str, num: int = 12, **case: Any) -> None:
    """estimate_step, or estimate_memory, of the best candidates and some others, against the simulator."""
    asked = [(pair, plan) for pair in pairs for plan in _some_plans(pair, num)]
    draws = [lambda _rng, pair=pair, plan=plan: drawn(pair)(_rng) | {"plan": asdict(plan)} for pair, plan in asked]
    size = 4 if what == "step" else 5
    function = "estimate_step" if what == "step" else "estimate_memory"
    returns = {"counted": ("float64", (len(asked), size))}
    seen = observe("figures", transport="none", inputs=inputs_of(draws), returns=returns, function=function, size=size, **case)
    for ((model, cluster), plan), row in zip(asked, seen.rank(0)["counted"], strict=True):
        ours = float(sum(row[:3])) if what == "step" else float(sum(row))
        theirs = space.simulated_s(model, cluster, plan) if what == "step" else space.simulated_bytes(model, plan)
        allowed = AGREEMENT if what == "step" else 0.02
        if abs(ours / theirs - 1) > allowed:
            unit, scale = ("s", 1.0) if what == "step" else ("GB", 1e9)
            raise broken(
                f"{function} of {_short(json.dumps(asdict(plan)))} on {cluster.num_gpus} GPUs gives {ours / scale:.5g} {unit} in all.",
                f"Allowed: the simulator's {theirs / scale:.5g} {unit}, within {100 * allowed:g} %.",
                f"That is {ours / theirs:.3g} times as much as the simulator says.",
                "The laws of the parts say which of them is off; if they pass, look at how the parts are put together.",
            )


def _some_plans(pair: Pair, num: int) -> list[Plan]:
    """The fastest that fit, and the pipelines with the largest share of bubble."""
    ranked = [one[0] for one in sorted(space.by_formula(*pair), key=lambda one: one[3]) if math.isfinite(one[3])]
    pipelines = [plan for plan in ranked if 1 < plan.pp <= MOST_STAGES]
    pipelines.sort(key=lambda plan: plan.num_micro_batches * plan.chunks / plan.pp)
    return [*ranked[: num // 2], *pipelines[: num // 2]]
