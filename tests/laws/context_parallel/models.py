"""The GPT on a cut sequence, against the whole one, which runs in fp64 on one rank of another run, without the submission."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.numerics import Hints, assert_close, assert_equal, sum_bound
from tests.laws.context_parallel.oracle import Array, draw
from tests.laws.context_parallel.sequences import place_of
from tests.laws.sentences import broken

BATCH = 2
# fp64 has 2^-53. A number is the end of a chain of sums with some hundreds of terms each, so rounding in another order moves it by
# thousands of that; float32 anywhere on the way moves it by 2^-24, and a forgotten term by far more. Relative to the tensor's largest.
FP64_ERROR = 2.0**-36
GPT2 = {"vocab_size": 13, "max_tokens": 16, "num_layers": 2, "hidden_size": 12, "num_heads": 6, "num_kv_heads": 6, "mlp_size": 8}
LLAMA = GPT2 | {"num_layers": 1, "hidden_size": 24, "num_heads": 12, "positions": "rotary", "norm": "rmsnorm", "activation": "swiglu",
                "bias": False, "tied": False}  # fmt: skip
RING, ZIGZAG, ULYSSES = {"method": "ring"}, {"method": "ring", "zigzag": True}, {"method": "ulysses"}

Way = dict[str, Any]


def weights_of(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a GPT's parameters, in the order in which it has them."""
    width, has_bias = config["hidden_size"], config.get("bias", True)
    qkv = (config["num_heads"] + 2 * config["num_kv_heads"]) * (width // config["num_heads"])
    is_plain, is_gated = config.get("norm", "layernorm") == "layernorm", config.get("activation", "gelu") == "swiglu"
    linear = {"attention.qkv": (qkv, width), "attention.out": (width, width)}
    mlp = {f"mlp.{name}": (config["mlp_size"], width) for name in (("gate", "up") if is_gated else ("up",))}
    mlp["mlp.down"] = (width, config["mlp_size"])
    shapes: dict[str, tuple[int, ...]] = {"token_embedding.weight": (config["vocab_size"], width)}
    if config.get("positions", "learned") == "learned":
        shapes["position_embedding.weight"] = (config["max_tokens"], width)
    for layer in range(config["num_layers"]):
        for norm, matrices in (("attention_norm", linear), ("mlp_norm", mlp)):
            shapes |= {f"blocks.{layer}.{norm}.{part}": (width,) for part in (("weight", "bias") if is_plain and has_bias else ("weight",))}
            for name, shape in matrices.items():
                shapes[f"blocks.{layer}.{name}.weight"] = shape
                shapes |= {f"blocks.{layer}.{name}.bias": shape[:1]} if has_bias else {}
    shapes |= {f"norm.{part}": (width,) for part in (("weight", "bias") if is_plain and has_bias else ("weight",))}
    return shapes if config.get("tied", True) else shapes | {"head.weight": (config["vocab_size"], width)}


def run_whole(observe: Any, config: dict[str, Any], num_tokens: int, **case: Any) -> Any:
    """The whole model on one rank, with weights and tokens that the runs on a cut sequence get from here."""
    shapes = weights_of(config)

    def inputs(rng: np.random.Generator) -> dict[str, Array]:
        drawn = {f"w/{name}": rng.standard_normal(shape) * 0.4 for name, shape in shapes.items()}
        tokens = rng.integers(0, config["vocab_size"], (BATCH, num_tokens))
        labels = np.where(rng.random(tokens.shape) < 0.3, -100, tokens)
        labels[:, 1 : num_tokens // 3] = -100  # a prompt: ranks have different numbers of targets
        targets = np.concatenate([labels[:, 1:], np.full((BATCH, 1), -100)], 1)
        return drawn | {"tokens": tokens, "labels": labels, "targets": targets}

    returns = {f"d/{name}": ("float64", shape) for name, shape in shapes.items()} | {"loss": ("float64", ())}
    return observe("plain", world_size=1, transport="none", inputs=inputs, returns=returns, config=config, **case)


def run(
    observe: Any, world_size: int, config: dict[str, Any], ways: list[Way], *, num_tokens: int = 11, groups: list[list[int]] | None = None,
    transport: str = "wire", **case: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """-> (the run on a cut sequence, in each of these ways; the run on the whole). All groups of ranks have the same batch."""
    whole = run_whole(observe, config, num_tokens, **case)
    inputs = {name: whole.input(name, 0) for name in whole.request.inputs if name != "targets"}
    returns = {f"{n}/d/{name}": ("float64", shape) for n in range(len(ways)) for name, shape in weights_of(config).items()}
    returns |= {f"{n}/loss": ("float64", ()) for n in range(len(ways))}
    words = {} if groups is None else {"groups": groups}
    seen = observe("model", world_size=world_size, inputs=inputs, returns=returns, config=config, ways=ways, transport=transport, **words,
                   **case)  # fmt: skip
    return seen, whole


def judge(runs: tuple[Any, Any]) -> None:
    """Loss and gradients of every rank, in every way; the model is changed in place."""
    seen, whole = runs
    right = whole.rank(0)
    for rank in range(seen.world_size):
        n = len(place_of(seen, rank)[1])
        for number, way in enumerate(seen.request.parameters["ways"]):
            words = f"{way['method']}{', zigzag' if way.get('zigzag') else ''}, on rank {rank} of {n}"
            if not seen.facts(rank)["is_in_place"][number]:
                raise broken(f"parallelize_context ({words}) returns another object than it got.", "Expected: gpt itself.")
            if not seen.facts(rank)["num_calls"][number]:
                raise broken(f"parallelize_context ({words}): the kernel that was given is never called.",
                             "Expected: it does all attention.", "Another kernel than the given one is used.",
                             "Is `kernel` handed on to the attention?")  # fmt: skip
            names = ["loss", *(f"d/{name}" for name in weights_of(seen.request.parameters["config"]))]
            for name in names:
                value = right[name]
                suggestion = "Is every rank's gradient its own tokens' part, and are the parts summed, once?"
                if name == "loss":
                    suggestion = "Does the model get the shard's positions_T, attend by the method, and the loss of the whole?"
                what = f"{'the loss' if name == 'loss' else 'the gradient of ' + name[2:]} ({words})"
                allowed = FP64_ERROR * max(float(np.abs(value).max()), 1e-3)
                assert_close(seen.rank(rank)[f"{number}/{name}"], value, allowed=allowed, what=what,
                             hints=Hints(world_size=n, suggestion=suggestion))  # fmt: skip


# --- the sum of gradients --------------------------------------------------------------------------------------------
def run_sums(
    observe: Any, world_size: int, *, missing: list[list[str]] | None = None, dtype: str = "float32", layout: str = "plain",
    groups: list[list[int]] | None = None, stale: bool = False, **case: Any,
) -> Any:  # fmt: skip
    """sum_gradients of four parameters, "frozen" among them. missing: by rank, those that have no gradient there.

    stale: the frozen one has a gradient from before.
    """
    shapes = {"first": (3, 4), "second": (5, 2), "third": (2, 2), "frozen": (2, 3)}

    def inputs(rng: np.random.Generator) -> dict[str, list[Array]]:
        return {name: [draw(rng, dtype, shape) for _ in range(world_size)] for name, shape in shapes.items()}

    returns = {name: (dtype, shape) for name, shape in shapes.items()}
    words = ({} if groups is None else {"groups": groups}) | ({"stale": True} if stale else {})
    return observe("sums", world_size=world_size, inputs=inputs, returns=returns, missing=missing or [[]] * world_size, frozen=["frozen"],
                   layout=layout, **words, **case)  # fmt: skip


def judge_sums(seen: Any) -> None:
    """Every trained parameter has the sum, in place; frozen ones have nothing; nothing but all_reduce is called."""
    missing = seen.request.parameters["missing"]
    if seen.fault is not None and seen.fault.kind in ("mismatch", "deadlock"):
        raise broken(f"sum_gradients: {seen.fault.sentence}", "Expected: the same all_reduces on all ranks.",
                     "A gradient that is missing on one rank is left out there, and counts for zeros nowhere.",
                     "torch.zeros_like(parameter) where grad is None.", "\n".join(seen.fault.lines))  # fmt: skip
    for rank in range(seen.world_size):
        _, members = place_of(seen, rank)
        for name in ("first", "second", "third"):
            parts = [np.asarray(seen.input(name, r), np.float64) * (name not in missing[r]) for r in members]
            dtype = seen.request.return_of(name, rank).dtype
            hints = Hints(world_size=len(members), others={"this rank's own": parts[members.index(rank)]}, suggestion=
                          "A sum over the ranks, divided by nothing; zeros where there is no gradient.")  # fmt: skip
            before = ", which was None," if name in missing[rank] else ""
            what = f"sum_gradients: the gradient of {name}{before} on rank {rank}"
            allowed = sum_bound(dtype, len(members), np.sum(np.abs(parts), axis=0))
            assert_close(seen.rank(rank)[name], np.sum(parts, axis=0), allowed=allowed, what=what, hints=hints)
        facts = seen.facts(rank)
        if seen.request.parameters.get("stale"):
            hints = Hints(suggestion="Look at requires_grad, not at grad.")
            what = f"sum_gradients: the gradient that a frozen parameter has from before, on rank {rank}"
            assert_equal(seen.rank(rank)["frozen"], seen.input("frozen", rank), what=what, hints=hints)
        if facts["appeared"]:
            raise broken(f"sum_gradients: a frozen parameter on rank {rank} has a gradient afterwards.", "Expected: None.",
                         "Parameters that are not trained are not left alone.", "Look at requires_grad.")  # fmt: skip
        if facts["moved"]:
            raise broken(f"sum_gradients: grad of {', '.join(facts['moved'])} on rank {rank} is another tensor afterwards.",
                         "Expected: the same tensor, with the sum in it.", "The sum is not made in place.",
                         "copy_ it back if all_reduce needed a contiguous copy.")  # fmt: skip
        strange = seen.wire.operations(rank, phase="sum") - {"all_reduce"}
        if strange:
            raise broken(f"sum_gradients: rank {rank} calls {', '.join(sorted(strange))}.", "Allowed: all_reduce only.")
        if any(call.facts.get("strided") for call in seen.wire.calls(rank, phase="sum")):
            raise broken(f"sum_gradients: rank {rank} hands all_reduce a tensor that isn't contiguous.",
                         "Expected: contiguous tensors only.",
                         "NCCL refuses it.", "contiguous(), and copy_ back.")  # fmt: skip


# --- ways that don't exist -------------------------------------------------------------------------------------------
WRONG_WAYS = [{"method": "rings"}, {"method": "ulysses", "zigzag": True}, {"method": ""}]


def run_ways(observe: Any, **case: Any) -> Any:
    """parallelize_context in ways that there are not."""
    return observe("wrong_ways", world_size=1, returns={}, config=GPT2, ways=WRONG_WAYS, **case)


def judge_ways(seen: Any) -> None:
    """Each raises a ValueError, and leaves the model as it was."""
    for way, raised, is_intact in zip(WRONG_WAYS, seen.facts(0)["raised"], seen.facts(0)["is_intact"], strict=True):
        if raised != "ValueError" or not is_intact:
            raise broken(f"parallelize_context with {way} raises {raised or 'nothing'}, and leaves a model that is "
                         f"{'as it was' if is_intact else 'changed'}.", "Expected: a ValueError, and the model as it was.",
                         "A way that does not exist is not refused with a ValueError.", "Check before you replace.")  # fmt: skip
