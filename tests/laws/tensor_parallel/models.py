"""The GPT in slices: against the whole model, which runs in fp64 on one rank of another run, without the submission."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from grader.numerics import Hints, assert_close, assert_equal
from grader.records import ITEMSIZE, Limits, MiB, num_elements
from tests.laws.groups import groups_of
from tests.laws.sentences import broken
from tests.laws.tensor_parallel.carrying import all_reduced, judge_carried
from tests.laws.tensor_parallel.functions import Array, part_of
from tests.laws.tensor_parallel.layers import padded
from tests.laws.tensor_parallel.sentences import about_outputs, addend_of, rows_held

BATCH = 2
# fp64 has 2^-53. A number is the end of a chain of sums with some hundreds of terms each, so rounding in another order moves it by
# thousands of that; float32 anywhere on the way moves it by 2^-24, and a forgotten term by far more. Relative to the tensor's largest.
FP64_ERROR = 2.0**-36
GPT2 = {"vocab_size": 29, "max_tokens": 12, "num_layers": 2, "hidden_size": 24, "num_heads": 12, "num_kv_heads": 12, "mlp_size": 36}
LLAMA = GPT2 | {"hidden_size": 48, "num_heads": 24, "positions": "rotary", "norm": "rmsnorm", "activation": "swiglu", "bias": False,
                "tied": False}  # fmt: skip
LARGE = GPT2 | {"vocab_size": 16384, "max_tokens": 256, "num_layers": 1, "hidden_size": 8, "num_heads": 4, "num_kv_heads": 4, "mlp_size": 8}
ROOM = 7  # tensors of the size of a rank's logits
SLACK_BYTES = 6 * MiB  # embedding, its copies and gradients (half a MiB each), activations, and what an allocator rounds up

Shapes = dict[str, tuple[int, ...]]


def weights_of(config: dict[str, Any]) -> Shapes:
    """Names and shapes of the whole GPT's parameters, in the order in which it has them."""
    width, num_bias = config["hidden_size"], config.get("bias", True)
    qkv = (config["num_heads"] + 2 * config["num_kv_heads"]) * (width // config["num_heads"])
    shapes: Shapes = {"token_embedding.weight": (config["vocab_size"], width)}
    if config.get("positions", "learned") == "learned":
        shapes["position_embedding.weight"] = (config["max_tokens"], width)

    def norm(name: str) -> None:
        shapes[f"{name}.weight"] = (width,)
        if config.get("norm", "layernorm") == "layernorm" and num_bias:
            shapes[f"{name}.bias"] = (width,)

    def linear(name: str, num_in: int, num_out: int) -> None:
        shapes[f"{name}.weight"] = (num_out, num_in)
        if num_bias:
            shapes[f"{name}.bias"] = (num_out,)

    for layer in range(config["num_layers"]):
        block = f"blocks.{layer}"
        norm(f"{block}.attention_norm")
        linear(f"{block}.attention.qkv", width, qkv)
        linear(f"{block}.attention.out", width, width)
        norm(f"{block}.mlp_norm")
        for name in ("gate", "up") if config.get("activation", "gelu") == "swiglu" else ("up",):
            linear(f"{block}.mlp.{name}", width, config["mlp_size"])
        linear(f"{block}.mlp.down", config["mlp_size"], width)
    norm("norm")
    if not config.get("tied", True):
        shapes["head.weight"] = (config["vocab_size"], width)
    return shapes


def axis_of(name: str) -> int | None:
    """The dim along which a parameter is cut; None where it is whole."""
    owner, _, kind = name.rpartition(".")
    if owner.endswith((".qkv", ".gate", ".up", "head", "token_embedding")):
        return 0
    return 1 if owner.endswith((".out", ".down")) and kind == "weight" else None


def part(name: str, whole: Array, place: int, n: int) -> Array:
    """A rank's part of a parameter or of its gradient; a vocabulary is padded."""
    axis = axis_of(name)
    if axis is None:
        return whole
    return part_of(padded(whole, n) if name in ("token_embedding.weight", "head.weight") else whole, axis, place, n)


def stream_shape(config: dict[str, Any], batch: int, num_tokens: int, n: int) -> tuple[int, int, int]:
    """The residual stream's shape where T is cut into n."""
    return batch, num_tokens // n, config["hidden_size"]


# --- loss and gradients ----------------------------------------------------------------------------------------------
def run_whole(
    observe: Any, config: dict[str, Any], *, num_tokens: int = 12, batch: int = 0, is_packed: bool = False, **case: Any
) -> Any:  # fmt: skip
    """The whole model on one rank, with weights and tokens that the runs in slices get from here. batch: another one for each number.

    is_packed: positions are given, and begin again at every fifth token.
    """
    shapes = weights_of(config)

    def inputs(rng: np.random.Generator) -> dict[str, Array]:
        drawn = {f"w/{name}": rng.standard_normal(shape) * 0.3 for name, shape in shapes.items()}
        for _ in range(batch + 1):
            tokens, targets = (rng.integers(0, config["vocab_size"], (BATCH, num_tokens)) for _ in range(2))
        targets[0, :2] = -100
        return drawn | {"tokens": tokens, "targets": targets} | ({"positions": np.arange(num_tokens) % 5} if is_packed else {})

    returns = {f"d/{name}": ("float64", shape) for name, shape in shapes.items()}
    returns |= {"loss": ("float64", ()), "logits": ("float64", (BATCH, num_tokens, config["vocab_size"]))}
    return observe("plain", world_size=1, transport="none", inputs=inputs, returns=returns, config=config, num_tokens=num_tokens, **case)


class Sliced:
    """A run in slices, and for each of its groups the run of the whole model on the same numbers."""

    def __init__(self, seen: Any, wholes: list[Any]) -> None:
        self.seen, self.wholes = seen, wholes
        self.case: dict[str, Any] = seen.request.parameters
        self.config: dict[str, Any] = self.case["config"]

    def ranks(self) -> Iterator[tuple[int, int, int, Any]]:
        """(rank, its place in its group, the group's size, the whole run)."""
        for members, whole in zip(groups_of(self.seen), self.wholes, strict=True):
            for place, rank in enumerate(members):
                yield rank, place, len(members), whole


def run_model(
    observe: Any, world_size: int, config: dict[str, Any], *, num_tokens: int = 12, sequence_parallel: bool = False,
    groups: list[list[int]] | None = None, num_backwards: int = 1, transport: str = "wire",
    is_packed: bool = False, **case: Any,
) -> Sliced:  # fmt: skip
    """Loss, logits and gradients of the model in slices; each group of ranks has another batch."""
    teams = groups or [list(range(world_size))]
    wholes = [run_whole(observe, config, num_tokens=num_tokens, batch=number, is_packed=is_packed, **case) for number in range(len(teams))]
    n, shapes = len(teams[0]), weights_of(config)
    inputs = {name: wholes[0].input(name, 0) for name in wholes[0].request.inputs if name.startswith("w/")}
    for name in ("tokens", "targets", *(["positions"] if is_packed else [])):
        of_rank = {rank: whole.input(name, 0) for members, whole in zip(teams, wholes, strict=True) for rank in members}
        inputs[name] = [of_rank[rank] for rank in range(world_size)]
    parts = {name: part(name, np.zeros(shape), 0, n).shape for name, shape in shapes.items()}
    returns = {f"{prefix}/{name}": ("float64", shape) for prefix in "wd" for name, shape in parts.items()}
    returns |= {"loss": ("float64", ()), "logits": ("float64", (BATCH, num_tokens, -(-config["vocab_size"] // n)))}
    words: dict[str, Any] = ({"groups": groups} if groups else {}) | ({"sequence_parallel": True} if sequence_parallel else {})
    words |= {"num_backwards": num_backwards} if num_backwards > 1 else {}
    words |= {"shapes": {name: list(shape) for name, shape in parts.items()}}
    seen = observe("model", world_size=world_size, inputs=inputs, returns=returns, config=config, transport=transport, **words, **case)
    return Sliced(seen, wholes)


def judge_model(run: Sliced, *, only_whole: bool = False) -> None:
    """Loss, logits and gradients of every rank. only_whole: gradients of whole parameters only, which else count without cut tokens."""
    is_sequence, times = run.case.get("sequence_parallel", False), run.case.get("num_backwards", 1)
    for rank, place, n, whole in run.ranks():
        got, right = run.seen.rank(rank), whole.rank(0)
        if not only_whole:
            weights = {name: part(name, whole.input(f"w/{name}", 0), place, n) for name in weights_of(run.config)}
            strange = [name for name, value in weights.items() if not np.array_equal(got[f"w/{name}"], value)]
            judge_outputs(got, right, run.config["vocab_size"], place, rank, n, strange)
        for name in weights_of(run.config):
            if is_sequence and (axis_of(name) is None) != only_whole:
                continue
            value = part(name, right[f"d/{name}"], place, n) * times
            allowed = FP64_ERROR * np.abs(value).max(initial=1e-3)
            team = next(members for members in groups_of(run.seen) if rank in members) if axis_of(name) is None else [rank]
            others = addend_of([run.seen.rank(member)[f"d/{name}"] for member in team], team.index(rank), value, allowed, times)
            hints = Hints(world_size=n, others=others, suggestion=suggestion_for(name, is_sequence))
            what = f"the gradient of {name} on rank {rank} of {n}{f' after {times} backwards' if times > 1 else ''}"
            assert_close(got[f"d/{name}"], value, allowed=allowed, what=what, hints=hints)


def judge_outputs(
    got: dict[str, Array], right: dict[str, Array], vocab_size: int, place: int, rank: int, n: int, strange: list[str]
) -> None:  # fmt: skip
    """Logits and loss of one rank; strange: the weights that did not start as its part."""
    num_rows = -(-vocab_size // n)
    own = right["logits"][..., place * num_rows : (place + 1) * num_rows]
    logits = got["logits"][..., : own.shape[-1]]
    allowed = FP64_ERROR * np.abs(right["logits"]).max()
    hints = Hints(world_size=n, suggestion=about_outputs(strange, are_logits=True))
    assert_close(logits, own, allowed=allowed, what=f"the logits of rank {rank} of {n}", hints=hints)
    loss, hints = right["loss"], Hints(world_size=n, suggestion=about_outputs(strange, are_logits=False))
    assert_close(got["loss"], loss, allowed=FP64_ERROR * abs(float(loss)), what=f"the loss on rank {rank} of {n}", hints=hints)


def suggestion_for(name: str, is_sequence: bool) -> str:
    """What may be wrong with a gradient."""
    if axis_of(name) is not None:
        return "Is f before, and g behind, each pair of cut layers? The gradient that arrives must be whole, and counted once."
    if is_sequence:
        return "This weight is whole and each rank uses it for its own tokens: its gradient must be summed over the group, once a backward."
    return "This weight is whole, and so must be the gradient that arrives here: what does the backward of f sum?"


def judge_start(run: Sliced) -> None:
    """Names, values, marks and memory of the parameters, before the first step."""
    for rank, place, n, whole in run.ranks():
        facts = run.seen.facts(rank)
        expected = {name: part(name, whole.input(f"w/{name}", 0), place, n) for name in weights_of(run.config)}
        if not facts["is_in_place"]:
            raise broken(f"rank {rank}: parallelize returns another object than it got.", "Expected: gpt itself.",
                         "The model is not changed in place.")  # fmt: skip
        judge_names(facts, list(expected), rank)
        for name, value in expected.items():
            asks = rows_held(run.seen.rank(rank)[f"w/{name}"], whole.input(f"w/{name}", 0))
            hints = Hints(world_size=n, suggestion=asks)
            assert_equal(run.seen.rank(rank)[f"w/{name}"], value, what=f"{name} of rank {rank} of {n} at first", hints=hints)
        held, most = facts["held_bytes"], sum(value.nbytes for value in expected.values())
        if held > most:
            diagnosis = f"That is {held / most:.3g} times its part: the memory of whole weights is kept."
            raise broken(f"rank {rank} of {n} holds {held} bytes behind its parameters.", f"Allowed: {most}, what its parts have.",
                         diagnosis, "Clone the slices.")  # fmt: skip
        alive = [name for name in facts["alive"] if name in expected and axis_of(name) is not None and n > 1]
        if alive:
            raise broken(f"rank {rank} of {n}: the whole {', '.join(alive)} can still be reached after parallelize.",
                         "Expected: its memory is free, since a part has taken its place.",
                         "The memory of whole weights is kept beside the parts.", "Who still holds the old layer?")  # fmt: skip


def judge_names(facts: dict[str, Any], names: list[str], rank: int) -> None:
    """The parameters' names and marks."""
    strange, missing = sorted(set(facts["shapes"]) - set(names)), sorted(set(names) - set(facts["shapes"]))
    if strange or missing:
        found = f"lacks {', '.join(missing) or 'nothing'} and has {', '.join(strange) or 'nothing'} more"
        raise broken(f"rank {rank}: named_parameters() {found}.", "Expected: the names of the whole model.",
                     "Parameters have other names than in the whole model, or are tied no more.",
                     "Put the layer where the old one was; a tied head gets the embedding's own Parameter.")  # fmt: skip
    wrong = sorted(set(facts["cut"]) ^ {name for name in names if axis_of(name) is not None})
    if wrong:
        raise broken(f"rank {rank}: is_cut is wrong on {', '.join(wrong)}.", "Expected: True on parts only.",
                     "The mark is_cut is not on exactly the parameters that are parts.")  # fmt: skip


# --- traffic and memory ----------------------------------------------------------------------------------------------
def run_block(
    observe: Any, world_size: int, config: dict[str, Any], *, num_tokens: int = 12, batch: int = BATCH, sequence_parallel: bool = False,
    **case: Any,
) -> Any:  # fmt: skip
    """One block, forward and backward."""
    shape = stream_shape(config, batch, num_tokens, world_size if sequence_parallel else 1)

    def inputs(rng: np.random.Generator) -> dict[str, Any]:
        return {name: rng.standard_normal(shape).astype(np.float32) for name in ("x", "gradient")}

    words = {"sequence_parallel": True} if sequence_parallel else {}
    return observe("block", world_size=world_size, inputs=inputs, returns={}, config=config, num_tokens=num_tokens, **words, **case)


def judge_block_volume(seen: Any) -> None:
    """Two all-reduces of the stream each way; under sequence parallelism also the whole weights' gradients backward."""
    case, n = seen.request.parameters, seen.world_size
    is_sequence = case.get("sequence_parallel", False)
    stream_bytes = seen.input("x", 0).nbytes * (n if is_sequence else 1)
    stream = 2 * all_reduced(stream_bytes, n)
    whole = [shape for name, shape in weights_of(case["config"]).items() if name.startswith("blocks.0.") and axis_of(name) is None]
    weights = sum(all_reduced(num_elements(shape) * ITEMSIZE["float32"], n) for shape in whole) if is_sequence else 0.0
    why = f"two {'all-gathers and two reduce-scatters' if is_sequence else 'all-reduces'} of the stream of {stream_bytes} bytes"
    judge_carried(seen, "block forward", least=stream, most=stream, why=why, suggestion="One g behind attention and one behind the MLP.")
    more = ", and the gradients of the whole weights" if weights else ""
    suggestion = "One f before qkv and one before the MLP; where gate and up have an f each, the input's gradient travels twice."
    judge_carried(seen, "block backward", least=stream + weights, most=stream + weights, why=why + more, suggestion=suggestion)


def judge_stream(seen: Any) -> None:
    """What embed returns, and what a block and a norm carry on, has T/N tokens."""
    expected = list(seen.input("x", 0).shape)
    for rank in range(seen.world_size):
        for name, words in (("embedded", "embed returns"), ("carried_on", "a block returns"), ("normed", "the last norm returns")):
            shape = seen.facts(rank)[name]
            if shape != expected:
                raise broken(f"rank {rank}: {words} a stream of shape {shape}.", f"Expected: {expected}.",
                             "Between the layers the stream is not cut to T / N tokens.",
                             "The embedding ends with reduce_scatter_sequence, positions are this rank's.")  # fmt: skip


def run_large(observe: Any, **case: Any) -> Any:
    """A step on four ranks that have room for seven tensors of the size of a rank's logits, and little else."""
    num_bytes = LARGE["max_tokens"] * LARGE["vocab_size"] // 4 * 4
    limits = Limits(extra_bytes=ROOM * num_bytes + SLACK_BYTES)
    return observe("large_model", world_size=4, returns={"loss": ("float32", ())}, limits=limits, config=LARGE,
                   num_tokens=LARGE["max_tokens"], **case)  # fmt: skip


def judge_large(seen: Any) -> None:
    """Equal weights make all words equally likely."""
    loss = np.log(LARGE["vocab_size"])
    for rank in range(seen.world_size):
        # float32 sums of 16384 equal terms: at most a rounding for each.
        allowed = LARGE["vocab_size"] * 2.0**-24
        assert_close(seen.rank(rank)["loss"], np.asarray(loss), allowed=allowed, what=f"the loss of a guess on rank {rank}")


# --- refusals --------------------------------------------------------------------------------------------------------
def run_refused(observe: Any, world_size: int, cases: list[dict[str, Any]], **case: Any) -> Any:
    """Models that can't be cut: {"what", "name" of the field, "extent", "config"}."""
    return observe("refused_model", world_size=world_size, returns={}, cases=cases, **case)


def judge_intact(seen: Any) -> None:
    """The models that were refused are as they were."""
    for rank in range(seen.world_size):
        for case, is_intact in zip(seen.request.parameters["cases"], seen.facts(rank)["is_intact"], strict=True):
            if not is_intact:
                raise broken(f"after the ValueError for {case['name']} the model of rank {rank} has other modules or parameters.",
                             "Expected: the model as it was.", "A model that is refused is changed all the same.",
                             "Check everything before anything is replaced.")  # fmt: skip
