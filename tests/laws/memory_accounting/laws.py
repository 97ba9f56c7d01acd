"""The judgements on parameters, states, their sharding, and the largest micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.errors import CourseError
from tests.laws.memory_accounting import ledger, mistakes, printed
from tests.laws.memory_accounting.judging import (
    ACTIVATIONS_PER_CENT,
    REAL_STEP,
    STATES_PER_CENT,
    assert_between,
    assert_figures,
    assert_nothing_built,
)
from tests.laws.memory_accounting.models import PLAIN, Array, Model, Options, Sizes, drawn, models_of

Recipe = tuple[str, str]
PRECISIONS = ("fp32", "autocast", "bf16", "mixed", "mixed_fp32_gradients")
OPTIMIZERS = ("sgd", "momentum", "adam")
WEIGHTS, GRADIENTS, MASTERS, MOMENTS = range(4)


# --- parameters ------------------------------------------------------------------------------------------------------
def run_parameters(observe: Any, sizes: Sequence[Sizes], options: Sequence[Options], *, heads_per_kv_head: int = 0, **case: Any) -> Any:
    """parameter_count of a model for each of `sizes`, with one set of options for all or one for each.

    heads_per_kv_head: rows come in pairs of equal sizes, but that the first of a pair shares each key/value head among so many.
    """

    def pairs(rng: np.random.Generator) -> dict[str, Array]:
        rows = np.asarray([row for each in sizes[::2] for row in [each.draw(rng)] * 2], np.int64)
        rows[0::2, 5] = rows[0::2, 4] // heads_per_kv_head
        return {"sizes": rows}

    returns = {name: ("float64", (len(sizes),)) for name in ("counted", "held")}
    inputs = pairs if heads_per_kv_head else drawn(sizes)
    return observe("parameters", transport="none", inputs=inputs, returns=returns, options=list(options), **case)


def judge_parameters(seen: Any) -> None:
    """Exactly as many as the shapes of the modules say, and as the model has on the meta device."""
    models, answer = models_of(seen), seen.rank(0)
    assert_nothing_built(seen, "parameter_count")
    ledgers = [ledger.parameters(model) for model in models]
    what = [f"parameter_count({model})" for model in models]
    advice = "Go through lm/gpt.py module by module: which of its shapes do you count, and how often?"
    assert_figures(
        answer["counted"], [sum(each.values()) for each in ledgers], what=what, ledgers=ledgers, suggestion=advice,
        mistakes=[mistakes.of_parameters(model) for model in models],
    )  # fmt: skip
    assert_figures(answer["counted"], answer["held"].tolist(), what=what, ledgers=ledgers, source="as lm.gpt.GPT has them")


def judge_pairs(seen: Any, *, difference: str, suggestion: str) -> None:
    """The second model of each pair counts exactly so many parameters more than the first as it has, whatever else is counted wrongly."""
    models, counted = models_of(seen), seen.rank(0)["counted"]
    totals = np.asarray([sum(ledger.parameters(model).values()) for model in models])
    what = [f"{difference}: the difference in parameter_count for {model}" for model in models[1::2]]
    assert_figures(counted[1::2] - counted[0::2], totals[1::2] - totals[0::2], what=what, suggestion=suggestion)


def judge_megatron_sizes(observe: Any, rows: slice = slice(None), **case: Any) -> None:
    """Billions of parameters, rounded to the digit that Megatron-LM's table prints."""
    table = printed.MEGATRON_TABLE_1[rows]
    vocabulary, sequence = printed.MEGATRON_VOCABULARY, printed.MEGATRON_SEQUENCE
    sizes = np.asarray([[vocabulary, sequence, layers, hidden, heads, heads, 4 * hidden] for _, heads, hidden, layers in table], np.int64)
    returns = {name: ("float64", (len(table),)) for name in ("counted", "held")}
    seen = observe("parameters", transport="none", inputs={"sizes": sizes}, returns=returns, options=[PLAIN], **case)
    what = [f"parameter_count({model}) in billions" for model in models_of(seen)]
    billions = np.round(seen.rank(0)["counted"] / 1e9, 1)
    assert_figures(billions, [row[0] for row in table], what=what, source="as printed in Narayanan et al. 2021, table 1")


# --- states ----------------------------------------------------------------------------------------------------------
def run_states(observe: Any, recipes: Sequence[Recipe], options: Options = PLAIN, **case: Any) -> Any:
    """model_state_bytes under each recipe, and the bytes alive after a real step of that kind."""
    count = len(recipes)
    returns = dict.fromkeys(("counted", "held"), ("float64", (count, 4)))
    return observe("states", transport="none", inputs=drawn([Sizes(layers=1)] * count), returns=returns, options=[options],
                   recipes=[list(recipe) for recipe in recipes], **case)  # fmt: skip


def judge_states(seen: Any, *columns: int, suggestion: str) -> None:
    """These of the four figures are what the recipe's dtypes cost, and what was alive after a real step."""
    models, recipes, answer = models_of(seen), seen.request.parameters["recipes"], seen.rank(0)
    rows = [ledger.states(model, *recipe) for model, recipe in zip(models, recipes, strict=True)]
    kinds = [dict(zip(("precision", "optimizer"), recipe, strict=True)) for recipe in recipes]
    for at in columns:
        name = ledger.STATE_NAMES[at]
        what = [f"{name} under {' with '.join(map(repr, recipe))} for {model}" for recipe, model in zip(recipes, models, strict=True)]
        for expected, source in (([row[at] for row in rows], ""), (answer["held"][:, at].tolist(), REAL_STEP)):
            assert_figures(
                answer["counted"][:, at], expected, what=what, per_cent=STATES_PER_CENT, kinds=kinds, source=source, suggestion=suggestion
            )


def judge_bytes_per_parameter(observe: Any, row: int, **case: Any) -> None:
    """Mixed precision with Adam costs 16 bytes a parameter (ZeRO, section 3.1), 18 with fp32 gradients (Megatron-LM)."""
    _, heads, hidden, layers = printed.MEGATRON_TABLE_1[row]
    sizes = [[printed.MEGATRON_VOCABULARY, printed.MEGATRON_SEQUENCE, layers, hidden, heads, heads, 4 * hidden]] * 2
    recipes = [["mixed", "adam"], ["mixed_fp32_gradients", "adam"]]
    returns = {"counted": ("float64", (2, 4))}
    inputs = {"sizes": np.asarray(sizes, np.int64)}
    seen = observe("counted_states", transport="none", inputs=inputs, returns=returns, options=[PLAIN], recipes=recipes, **case)
    models = models_of(seen)
    per_parameter = seen.rank(0)["counted"].sum(1) / np.asarray([sum(ledger.parameters(model).values()) for model in models])
    what = [f"the sum under {precision!r} for {model}, in bytes a parameter" for (precision, _), model in zip(recipes, models, strict=True)]
    assert_figures(per_parameter, [16, 18], what=what, per_cent=STATES_PER_CENT, source="as published")


# --- sharding --------------------------------------------------------------------------------------------------------
def judge_sharded(observe: Any, layouts: Sequence[dict[str, int]], *, suggestion: str = "", **case: Any) -> None:
    """Each of the four figures is divided by what the layout cuts it by, for states of any proportions, also without masters."""

    def whole(rng: np.random.Generator) -> dict[str, Array]:
        states = np.round(10 ** rng.uniform(6, 12, (len(layouts), 4)))
        states[-1, MASTERS] = 0
        return {"states": states}

    returns = {"counted": ("float64", (len(layouts), 4))}
    seen = observe("sharded", transport="none", inputs=whole, returns=returns, layouts=list(layouts), **case)
    counted, given = seen.rank(0)["counted"], seen.input("states", 0).tolist()
    shares = [ledger.zero(states, **layout) for states, layout in zip(given, layouts, strict=True)]
    off = [name for at, name in enumerate(ledger.STATE_NAMES) if not np.allclose(counted[:, at], [share[at] for share in shares], atol=0)]
    for at, name in enumerate(ledger.STATE_NAMES):
        assert_figures(
            counted[:, at],
            [share[at] for share in shares],
            what=[f"{name} of a rank with {told(layout)}" for layout in layouts],
            factors=common_factors(layouts),
            kinds=layouts,
            note=f"Of the four figures, {', '.join(off)} {'are' if len(off) > 1 else 'is what is'} off.",
            suggestion=suggestion or f"Are the {name} cut at this stage, by all that cuts them, and once?",
        )


def common_factors(layouts: Sequence[dict[str, int]]) -> dict[str, float]:
    """The degrees that all layouts share, as ratios to be recognised."""
    degrees = {name: {layout.get(name, 1) for layout in layouts} for name in ("dp", "tp", "pp")}
    return {name: float(values.pop()) for name, values in degrees.items() if len(values) == 1 and values != {1}}


def told(layout: dict[str, Any]) -> str:
    """A layout as arguments."""
    return ", ".join(f"{name}={value!r}" for name, value in layout.items())


def judge_zero_table(observe: Any, sizes: Sequence[float], **case: Any) -> None:
    """GB per device as ZeRO's table prints them: within one unit of the last digit, because it cuts as well as rounds."""
    table = {key: row for key, row in printed.ZERO_TABLE_1.items() if key[0] in sizes}
    layouts = [{"dp": dp, "stage": stage} for _, dp in table for stage in (1, 2, 3)]
    states = np.asarray([[2 * size, 2 * size, 4 * size, 8 * size] for size, _ in table for _ in range(3)])
    returns = {"counted": ("float64", (len(layouts), 4))}
    seen = observe("sharded", transport="none", inputs={"states": states}, returns=returns, layouts=layouts, **case)
    gigabytes = (seen.rank(0)["counted"].sum(1) / 1e9).tolist()
    figures = [figure for row in table.values() for figure in row]
    for got, figure, layout, whole in zip(gigabytes, figures, layouts, states[:, WEIGHTS].tolist(), strict=True):
        assert_between(
            got,
            float(figure) - printed.last_digit(figure),
            float(figure) + printed.last_digit(figure),
            what=f"{whole / 2e9:g} billion parameters, {told(layout)}: the sum of a rank's states in GB",
            suggestion="The table is Rajbhandari et al. 2020, table 1. Which of the four figures does this stage cut? "
            "What you return is not rounded: the table rounds the sum.",
        )


# --- fit -------------------------------------------------------------------------------------------------------------
def judge_fits(
    observe: Any,
    sizes: Sequence[Sizes],
    options: Sequence[Options],
    ways: Sequence[dict[str, Any]],
    *,
    sequence: int,
    targets: Sequence[int],
    **case: Any,
) -> None:
    """With room for so many sequences, and half a one to spare, the answer is so many. A target of -1: not even the states fit."""

    def rooms(rng: np.random.Generator) -> dict[str, Array]:
        rows = [each.draw(rng) for each in sizes]
        models = [Model(*row, **chosen) for row, chosen in zip(rows, options, strict=True)]
        rooms = [room_for(model, sequence, way, target) for model, way, target in zip(models, ways, targets, strict=True)]
        batches = np.asarray([[1, sequence]] * len(rows), np.int64)
        return {"sizes": np.asarray(rows, np.int64), "batches": batches, "device_bytes": np.asarray(rooms)}

    returns = {"counted": ("float64", (len(sizes),))}
    seen = observe("fits", transport="none", inputs=rooms, returns=returns, options=list(options), ways=list(ways), **case)
    counted, rooms_given = seen.rank(0)["counted"].tolist(), seen.input("device_bytes", 0).tolist()
    for got, model, way, target, room in zip(counted, models_of(seen), ways, targets, rooms_given, strict=True):
        states_bytes, sequence_bytes = states_of(model, way), activations_of(model, sequence, way, 1)
        assert_between(
            got,
            max(target, 0),
            max(target, 0),
            what=f"largest_micro_batch({model}, {sequence}, {room:.6g}, {told(way)})",
            suggestion=f"A rank's states take {states_bytes:.4g} bytes, a sequence's activations about {sequence_bytes:.4g}. "
            "Which of the two does dp divide, and what does one more sequence cost?",
        )


def judge_exact_fits(
    observe: Any,
    sizes: Sequence[Sizes],
    options: Sequence[Options],
    ways: Sequence[dict[str, Any]],
    *,
    sequence: int,
    targets: Sequence[int],
    **case: Any,
) -> None:
    """On a device of exactly the bytes that the submission's own figures sum to for so many sequences, the answer is so many."""
    inputs = drawn(sizes, batches=np.asarray([[target, sequence] for target in targets], np.int64))
    returns = dict.fromkeys(("counted", "device_bytes"), ("float64", (len(sizes),)))
    seen = observe("exact_fits", transport="none", inputs=inputs, returns=returns, options=list(options), ways=list(ways), **case)
    answer = seen.rank(0)
    asked = zip(answer["counted"].tolist(), models_of(seen), ways, targets, answer["device_bytes"].tolist(), strict=True)
    for got, model, way, target, room in asked:
        what = f"largest_micro_batch({model}, {sequence}, {room:.15g}, {told(way)})"
        assert_between(
            got, target, target, what=what, suggestion=f"Your own figures for {target} sequences sum to exactly device_bytes: they fit."
        )


def judge_fit_at_full_size(observe: Any, way: dict[str, Any], *, sequence: int, device_bytes: float, **case: Any) -> None:
    """A model of Megatron-LM's table on a real card: within the accuracy of the activations."""
    _, heads, hidden, layers = printed.MEGATRON_TABLE_1[0]
    sizes = [printed.MEGATRON_VOCABULARY, printed.MEGATRON_SEQUENCE, layers, hidden, heads, heads, 4 * hidden]
    options = PLAIN | {"attention": "sdpa"}
    inputs = {
        "sizes": np.asarray([sizes], np.int64),
        "batches": np.asarray([[1, sequence]], np.int64),
        "device_bytes": np.asarray([device_bytes]),
    }
    seen = observe("fits", transport="none", inputs=inputs, returns={"counted": ("float64", (1,))}, options=[options], ways=[way], **case)
    model = Model(*sizes, **options)
    right = ledger.largest(lambda n: states_of(model, way) + activations_of(model, sequence, way, n), device_bytes)
    slack = ACTIVATIONS_PER_CENT / 100 * right + 1
    assert_between(
        float(seen.rank(0)["counted"][0]),
        right - slack,
        right + slack,
        what=f"largest_micro_batch({model}, {sequence}, {device_bytes:g}, {told(way)})",
        suggestion="device_bytes are bytes, neither GB nor GiB. Compare states and activations one by one.",
    )


def states_of(model: Model, way: dict[str, Any]) -> float:
    """A rank's states."""
    whole = ledger.states(model, way["precision"], way.get("optimizer", "adam"))
    return sum(ledger.zero(whole, dp=way.get("dp", 1), stage=way.get("stage", 0)))


def activations_of(model: Model, sequence: int, way: dict[str, Any], micro_batch: int) -> float:
    """Activations of so many sequences."""
    dtype_bytes = 4 if way["precision"] == "fp32" else 2
    return sum(ledger.activations(model, micro_batch, sequence, dtype_bytes, way.get("recompute", "none")).values())


def room_for(model: Model, sequence: int, way: dict[str, Any], target: int) -> float:
    """Bytes in which `target` sequences fit and one more does not, as far as can be from both; CourseError if the allowed errors reach."""
    states_bytes = states_of(model, way)
    if target < 0:
        return states_bytes / 2
    held, more = (activations_of(model, sequence, way, count) if count else 0.0 for count in (target, target + 1))
    spare_bytes = (more - held) / 2
    if spare_bytes <= ACTIVATIONS_PER_CENT / 100 * more + STATES_PER_CENT / 100 * states_bytes:
        raise CourseError(
            f"{model} under {way}: an answer within the allowed errors could miss {target}; take fewer sequences or longer ones."
        )
    return states_bytes + held + spare_bytes
