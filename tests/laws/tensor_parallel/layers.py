"""Linear layers and the embedding in parts: against the whole layer in numpy, in fp64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from grader.errors import CourseError
from grader.numerics import Hints, assert_close, assert_equal, sum_bound
from tests.laws.groups import group_of, groups_of
from tests.laws.sentences import broken
from tests.laws.tensor_parallel.carrying import all_reduced, judge_carried
from tests.laws.tensor_parallel.functions import Array, draw, part_of
from tests.laws.tensor_parallel.sentences import about_words, other_embeddings, own_rows, unjoined

ROUNDINGS = 4  # of a product, and of what is added beside the sum


def padded(array: Array, n: int) -> Array:
    """With rows of zeros at its end, up to a multiple of n."""
    return np.concatenate([array, np.zeros((-len(array) % n, *array.shape[1:]), array.dtype)])


# --- linear ----------------------------------------------------------------------------------------------------------
def run_linear(
    observe: Any, world_size: int, layer: str, num_in: int, num_out: int, *, rows: tuple[int, ...] = (2, 12), dtype: str = "float32",
    has_bias: bool = True, groups: list[list[int]] | None = None, options: dict[str, bool] | None = None, knows_all: bool = True,
    **case: Any,
) -> Any:  # fmt: skip
    """layer: Column or Row. rows: the batch dims, (B, T); each group has another batch. knows_all: no rank's weight is `estranged`."""
    options = options or {}
    teams = groups or [list(range(world_size))]
    n = len(teams[0])
    width = num_out + (-num_out % n if options.get("pad") else 0)
    is_cut_x, is_cut_y = cuts(layer, options)

    def inputs(rng: np.random.Generator) -> dict[str, Any]:
        drawn: dict[str, Any] = {"weight": draw(rng, dtype, (num_out, num_in))}
        drawn |= {"bias": draw(rng, dtype, (num_out,))} if has_bias else {}
        drawn |= {"x": [np.zeros(0)] * world_size, "gradient": [np.zeros(0)] * world_size}
        for members in teams:
            x, gradient = draw(rng, dtype, (*rows, num_in)), draw(rng, dtype, (*rows, width))
            for place, rank in enumerate(members):
                drawn["x"][rank] = x if is_cut_x is None else part_of(x, is_cut_x, place, n)
                drawn["gradient"][rank] = gradient if is_cut_y is None else part_of(gradient, is_cut_y, place, n)
        return drawn if knows_all else drawn | {"weight": estranged(rng, drawn["weight"], 0 if layer == "Column" else 1, teams)}

    x, y = shape_of(rows, num_in, is_cut_x, n), shape_of(rows, width, is_cut_y, n)
    weight = (width // n, num_in) if layer == "Column" else (num_out, num_in // n)
    shapes = {"y": y, "dx": x, "weight": weight, "dweight": weight}
    if has_bias:
        shapes |= dict.fromkeys(("bias", "dbias"), (weight[0],))
    words = {"groups": groups} if groups else {}
    returns = {name: (dtype, shape) for name, shape in shapes.items()}
    return observe("linear", world_size=world_size, inputs=inputs, returns=returns, kind_of_layer=layer, options=options,
                   has_bias=has_bias, **words, **case)  # fmt: skip


def estranged(rng: np.random.Generator, whole: Array, axis: int, teams: list[list[int]]) -> list[Array]:
    """For each rank, a whole tensor of which its own part is right, and the others' are numbers of no meaning.

    A rank that does the work of another, with whatever was sent to look alike, then has it wrong.
    """
    given = {}
    for members in teams:
        for place, rank in enumerate(members):
            parts = np.split(draw(rng, str(whole.dtype), whole.shape), len(members), axis)
            parts[place] = part_of(whole, axis, place, len(members))
            given[rank] = np.concatenate(parts, axis)
    return [given[rank] for rank in sorted(given)]


def weight_of(seen: Any, members: list[int], axis: int) -> Array:
    """The whole weight; where they are estranged, of each rank the part that is its own."""
    given = seen.inputs["weight"]
    if not isinstance(given, list):
        return np.asarray(given)
    return np.concatenate([part_of(given[rank], axis, place, len(members)) for place, rank in enumerate(members)], axis)


def cuts(layer: str, options: dict[str, bool]) -> tuple[int | None, int | None]:
    """The dims along which a rank's x and y are cut; None where they are whole."""
    cut_stream = 1 if options.get("sequence_parallel") else None
    if layer == "Column":
        return cut_stream, None if options.get("gather_output") else -1
    return -1 if options.get("input_is_parallel", True) else None, cut_stream


def shape_of(rows: tuple[int, ...], width: int, cut: int | None, n: int) -> tuple[int, ...]:
    """The shape of a rank's x or y."""
    shape = [*rows, width]
    if cut is not None:
        shape[cut] //= n
    return tuple(shape)


def whole_of(seen: Any, name: str, members: list[int], axis: int | None) -> Array:
    """A group's whole tensor, from its ranks' inputs."""
    parts = [seen.input(name, rank).astype(np.float64) for rank in members]
    return parts[0] if axis is None else np.concatenate(parts, axis)


def judge_linear(seen: Any) -> None:
    """Outputs and all gradients of every rank."""
    case = seen.request.parameters
    kind, options = case["kind_of_layer"], case["options"]
    for members in groups_of(seen):
        n = len(members)
        is_cut_x, is_cut_y = cuts(kind, options)
        x, gradient = whole_of(seen, "x", members, is_cut_x), whole_of(seen, "gradient", members, is_cut_y)
        of_weight = 0 if kind == "Column" else 1
        weight = weight_of(seen, members, of_weight).astype(np.float64)
        bias = seen.input("bias", 0).astype(np.float64) if case["has_bias"] else np.zeros(len(weight))
        if options.get("pad"):
            weight, bias = padded(weight, n), padded(bias, n)
        right, sizes = (linear_values(*arrays) for arrays in ((x, weight, bias, gradient), map(np.abs, (x, weight, bias, gradient))))
        terms = {"y": x.shape[-1] + 1, "dx": len(weight), "dweight": math.prod(x.shape[:-1]), "dbias": math.prod(x.shape[:-1])}
        axes = {"y": is_cut_y, "dx": is_cut_x, "dweight": of_weight, "dbias": 0 if kind == "Column" else None}
        for name in terms if case["has_bias"] else [name for name in terms if name != "dbias"]:
            for place, rank in enumerate(members):
                spec, axis = seen.request.return_of(name, rank), axes[name]
                value, size = ((a if axis is None else part_of(a, axis, place, n)) for a in (right[name], sizes[name]))
                addends = {"the bias": np.broadcast_to(bias, value.shape)} if name == "y" and value.shape[-1] == len(bias) else {}
                others = unjoined(kind, name, axis, (x, weight, bias, gradient), place, n)
                suggestion = "" if name == "dbias" and not options.get("sequence_parallel") else SUGGESTIONS[name]
                hints = Hints(world_size=n, parts=addends, others=others, question=suggestion, suggestion=suggestion)
                what = f"{words_of(seen)}: {WORDS[name]} on rank {rank}"
                allowed = sum_bound(spec.dtype, terms[name] + n + ROUNDINGS, size)
                assert_close(seen.rank(rank)[name], value, allowed=allowed, what=what, hints=hints)


WORDS = {"y": "the output", "dx": "the gradient of the input", "dweight": "the gradient of weight", "dbias": "the gradient of bias"}
SUGGESTIONS = {
    "y": "Is every addend there once, the bias too, and after the sum?",
    "dx": "Which of f and g stands before this layer, and what does its backward do?",
    "dweight": "Is the gradient that arrives here the whole one, and counted once? Which input did the forward use?",
    "dbias": "Under sequence parallelism each rank sees the bias used for its own tokens only: where are these added up?",
}


def words_of(seen: Any) -> str:
    """The layer and its options in words."""
    case = seen.request.parameters
    options = [name if value else f"{name}=False" for name, value in case["options"].items()]
    return f"{case['kind_of_layer']}ParallelLinear{' (' + ', '.join(options) + ')' if options else ''}"


def linear_values(x: Array, weight: Array, bias: Array, gradient: Array) -> dict[str, Array]:
    """The whole layer, forward and backward."""
    flat_x, flat_gradient = x.reshape(-1, x.shape[-1]), gradient.reshape(-1, gradient.shape[-1])
    return {"y": x @ weight.T + bias, "dx": gradient @ weight, "dweight": flat_gradient.T @ flat_x, "dbias": flat_gradient.sum(0)}


def judge_parts(seen: Any) -> None:
    """Parameters are the whole layer's parts, marked, with memory of their own, and the whole layer is as it was."""
    case = seen.request.parameters
    is_column = case["kind_of_layer"] == "Column"
    for members in groups_of(seen):
        n = len(members)
        for place, rank in enumerate(members):
            for name in ("weight", "bias") if case["has_bias"] else ("weight",):
                whole = seen.input(name, 0)
                whole = padded(whole, n) if case["options"].get("pad") else whole
                axis = 0 if is_column else 1 if name == "weight" else None
                part = whole if axis is None else part_of(whole, axis, place, n)
                what = f"{words_of(seen)}: {name} of rank {rank}, its part of the whole layer's"
                assert_equal(seen.rank(rank)[name], part, what=what, hints=Hints(world_size=n))
            judge_held(seen, rank, words_of(seen), cut={"weight", "bias"} if is_column and case["has_bias"] else {"weight"})


def judge_held(seen: Any, rank: int, words: str, *, cut: set[str]) -> None:
    """Names, marks and memory of a layer's parameters."""
    facts = seen.facts(rank)
    names = {name for name in ("weight", "bias") if name in seen.request.returns}
    num_bytes = sum(seen.request.return_of(name, rank).num_bytes for name in names)
    if set(facts["shapes"]) != names or set(facts["trained"]) != names:
        found = f"{', '.join(facts['shapes']) or 'none'}, trained {', '.join(facts['trained']) or 'none'}"
        raise broken(f"{words}: rank {rank}'s parameters are {found}.", f"Expected: {' and '.join(sorted(names))}, all trained.",
                     "The layer has other parameters.")  # fmt: skip
    if set(facts["cut"]) != cut:
        found = ", ".join(facts["cut"]) or "nothing"
        raise broken(f"{words}: rank {rank} marks {found} as is_cut.", f"Expected: {' and '.join(sorted(cut))}.",
                     "The mark is_cut is not on exactly the parameters that are parts.", "Section 2, rule 8.")  # fmt: skip
    if facts["held_bytes"] > num_bytes:
        raise broken(f"{words}: behind the parameters of rank {rank} there are {facts['held_bytes']} bytes of memory.",
                     f"Allowed: {num_bytes}, what the parts have.",
                     f"That is {facts['held_bytes'] / num_bytes:.3g} times the part: the memory of the whole layer is kept alive.",
                     "A slice is a view of the whole: clone it.")  # fmt: skip
    if facts["shared"]:
        found = f"{words}: {', '.join(facts['shared'])} of rank {rank} lies in the memory of the whole layer's"
        raise broken(f"{found}.", "Expected: memory of its own.",
                     "A parameter is the whole layer's own, or a view of it.", "Clone it, the row-parallel bias too.")  # fmt: skip
    if not facts["is_whole_intact"]:
        raise broken(f"{words}: on rank {rank} the whole layer has changed.", "Expected: as it was.", "The whole layer is written to.")


def judge_linear_volume(seen: Any) -> None:
    """What f or g of the layer carries each way."""
    case = seen.request.parameters
    options, n = case["options"], len(group_of(seen, 0))
    if n == 1:
        raise CourseError("a group of one says nothing about volume")
    whole = {}
    for name, axis in zip(("dx", "y"), cuts(case["kind_of_layer"], options), strict=True):
        whole[name] = seen.request.return_of(name, 0).num_bytes * (1 if axis is None else n)
    if case["kind_of_layer"] == "Column":
        stream = all_reduced(whole["dx"], n)
        forward, backward = (stream / 2, stream / 2) if options.get("sequence_parallel") else (0.0, stream)
        forward += all_reduced(whole["y"], n) / 2 if options.get("gather_output") else 0.0
    else:
        stream = all_reduced(whole["y"], n)
        forward, backward = (stream / 2, stream / 2) if options.get("sequence_parallel") else (stream, 0.0)
        backward += 0.0 if options.get("input_is_parallel", True) else all_reduced(whole["dx"], n) / 2
        if options.get("sequence_parallel") and case["has_bias"]:
            backward += all_reduced(seen.request.return_of("bias", 0).num_bytes, n)
    for phase, expected in (("forward", forward), ("backward", backward)):
        judge_carried(seen, phase, least=expected, most=expected, why=f"what {words_of(seen)} needs")


# --- embedding -------------------------------------------------------------------------------------------------------
def run_embedding(
    observe: Any, world_size: int, vocab_size: int, *, tokens: tuple[int, ...] = (2, 12), hidden_size: int = 3,
    sequence_parallel: bool = False, groups: list[list[int]] | None = None, dtype: str = "float32", knows_all: bool = True, **case: Any,
) -> Any:  # fmt: skip
    """An embedding in rows; every word of the vocabulary occurs if there are tokens enough. knows_all: no rank's weight is `estranged`."""
    teams = groups or [list(range(world_size))]
    n = len(teams[0])
    axis = 1 if sequence_parallel else None

    def inputs(rng: np.random.Generator) -> dict[str, Any]:
        drawn: dict[str, Any] = {"weight": draw(rng, dtype, (vocab_size, hidden_size))}
        drawn |= {"tokens": [np.zeros(0)] * world_size, "gradient": [np.zeros(0)] * world_size}
        for members in teams:
            words = rng.permutation(np.arange(math.prod(tokens)) % vocab_size).reshape(tokens).astype(np.int64)
            gradient = draw(rng, dtype, (*tokens, hidden_size))
            for place, rank in enumerate(members):
                drawn["tokens"][rank] = words
                drawn["gradient"][rank] = gradient if axis is None else part_of(gradient, axis, place, n)
        return drawn if knows_all else drawn | {"weight": estranged(rng, drawn["weight"], 0, teams)}

    part = (-(-vocab_size // n), hidden_size)
    returns = {"y": (dtype, shape_of(tokens, hidden_size, axis, n)), "weight": (dtype, part), "dweight": (dtype, part)}
    words = ({"groups": groups} if groups else {}) | ({"sequence_parallel": True} if sequence_parallel else {})
    return observe("embedding", world_size=world_size, inputs=inputs, returns=returns, vocab_size=vocab_size, **words, **case)


def judge_embedding(seen: Any) -> None:
    """Rows, outputs and gradients of every rank."""
    axis = 1 if seen.request.parameters.get("sequence_parallel") else None
    if seen.fault and "ValueError" in seen.fault.sentence:
        raise broken(seen.fault.sentence, "Expected: any vocabulary is cut, padded by rows of zeros.", "An uneven vocabulary is refused.")
    for members in groups_of(seen):
        n, weight = len(members), weight_of(seen, members, 0)
        tokens, gradient = seen.input("tokens", members[0]), whole_of(seen, "gradient", members, axis)
        d_weight, size = np.zeros(weight.shape), np.zeros(weight.shape)
        np.add.at(d_weight, tokens, gradient)
        np.add.at(size, tokens, np.abs(gradient))
        for place, rank in enumerate(members):
            got, dtype = seen.rank(rank), seen.request.return_of("y", rank).dtype
            words = f"VocabParallelEmbedding of {len(weight)} words on {n} ranks"
            rows = part_of(padded(weight, n), 0, place, n)
            hints = Hints(world_size=n, suggestion="Rows r·P … r·P + P - 1 are rank r's; those beyond the vocabulary are padding: zeros.")
            assert_equal(got["weight"], rows, what=f"{words}: the rows of rank {rank}", hints=hints)
            right = weight[tokens] if axis is None else part_of(weight[tokens], axis, place, n)
            own_tokens, parts = (tokens if axis is None else part_of(tokens, axis, place, n)), np.split(padded(weight, n), n)
            asks = about_words(got["y"], right, own_tokens, len(rows))
            others = other_embeddings(parts, own_tokens) if n > 1 else {}
            hints = Hints(world_size=n, others=others, question=asks, suggestion=asks)
            assert_close(got["y"], right, allowed=0.0, what=f"{words}: the embedding on rank {rank}", hints=hints)
            most = int(np.bincount(tokens.reshape(-1)).max())
            allowed = sum_bound(dtype, most + 1, part_of(padded(size, n), 0, place, n))
            right = part_of(padded(d_weight, n), 0, place, n)
            alone = (
                {}
                if axis is None or n == 1
                else {"what this rank's own tokens give": own_rows(own_tokens, part_of(gradient, axis, place, n), right, place)}
            )
            hints = Hints(world_size=n, others=alone, suggestion="Do tokens of other ranks, or padding, reach a row of this rank?")
            assert_close(got["dweight"], right, allowed=allowed, what=f"{words}: the gradient of the rows of rank {rank}", hints=hints)
            judge_held(seen, rank, words, cut={"weight"})
