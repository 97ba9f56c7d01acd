"""The laws of task compile: what the found block computes, in fp64, what Dynamo and Inductor make of it, and who shares a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from grader.errors import LawBroken
from grader.numerics import Hints, assert_close, assert_equal
from grader.records import Limits, Message
from tests.laws.fused_kernels.cases import Array, at_home
from tests.laws.fused_kernels.saying import about

RELATIVE = 2.0**-18  # float32: some tens of roundings, and sums of a few dozen terms, relative to the largest number of each tensor
NUM_OPERATIONS_LIMIT = 60
NUM_KERNELS_LIMIT = 16
ENOUGH = Limits(cpu_s=120, wall_s=120)
HOST = "Dynamo and Inductor's scheduler work on the host"
Chain = list[list[Any]]


@dataclass(frozen=True, slots=True)
class Found:
    """A block, and the inputs of the calls that are made one after the other: (B, T, lengths, largest magnitude)."""

    dim: int
    hidden: int
    limit: float
    calls: tuple[tuple[int, int, tuple[int, ...], float], ...]
    eps: float = 1e-6

    def draw(self, rng: np.random.Generator) -> dict[str, Array]:
        """Parameters, and for each call x and lengths; `d` comes in at the last call's output."""
        drawn = {
            "weight": 1 + rng.standard_normal(self.dim) / 4,
            "up_weight": rng.standard_normal((2 * self.hidden, self.dim)) / self.dim**0.5,
            "up_bias": rng.standard_normal(2 * self.hidden),
            "down": rng.standard_normal((self.dim, self.hidden)) / self.hidden**0.5,
        }
        for call, (batch, tokens, _, largest) in enumerate(self.calls):
            x = rng.uniform(-1, 1, (batch, tokens, self.dim)) * 0.9
            x.flat[rng.integers(x.size)] = 1.0
            drawn |= {f"x{call}": x * largest, "d": rng.standard_normal(x.shape)}
        found = {name: values.astype(np.float32) for name, values in drawn.items()}
        return found | {f"lengths{call}": np.array(lengths, np.int64) for call, (_, _, lengths, _) in enumerate(self.calls)}


def run(observe: Any, found: Found, *, is_backward: bool, kind: str = "") -> Any:
    """The ready block in eager mode."""
    returns: dict[str, Any] = {}
    for call, (batch, tokens, _, _) in enumerate(found.calls):
        returns |= {f"out{call}": ("float32", (batch, tokens, found.dim)), f"largest{call}": ("float32", ())}
    if is_backward:
        batch, tokens, _, _ = found.calls[-1]
        returns |= {"dx": ("float32", (batch, tokens, found.dim)), "dweight": ("float32", (found.dim,))}
        returns |= {"dup_weight": ("float32", (2 * found.hidden, found.dim)), "dup_bias": ("float32", (2 * found.hidden,))}
        returns |= {"ddown": ("float32", (found.dim, found.hidden))}
    return observe("ready", inputs=found.draw, returns=returns, limit=found.limit, eps=found.eps, num_calls=len(found.calls),
                   is_backward=is_backward, limits=ENOUGH, kind=kind, **at_home())  # fmt: skip


def judge_outputs(seen: Any, found: Found) -> None:
    """Every call's output, and what largest_seen held after it."""
    if not seen.facts(0)["has_the_blocks_parameters"]:
        words = "Wrap the block, or write a module whose parameters are the block's own."
        raise LawBroken(Message(seen="The ready block's parameters are not those of the block.", suggestion=words))
    if not seen.facts(0)["has_the_blocks_buffer"]:
        words = "Write into it: block.largest_seen.copy_(...). An assignment puts another tensor in its place."
        seen_words = "largest_seen is another tensor after the call."
        raise LawBroken(Message(seen=seen_words, diagnosis="largest_seen was replaced.", suggestion=words))
    largest = 0.0
    for call in range(len(found.calls)):
        x = seen.inputs[f"x{call}"]
        largest = max(largest, float(np.abs(x).max()))
        others = {
            "the largest magnitude of this call alone": np.abs(x).max(),
            "the largest magnitude that is left after scaling": min(largest, np.float32(found.limit)),
        }
        hints = Hints(others=others, untouched=np.float32(0),
                      suggestion="largest_seen keeps the maximum over all calls: copy_ torch.maximum(...) into it.")  # fmt: skip
        with about(f"largest_seen after call {call + 1}"):
            assert_equal(seen.rank(0)[f"largest{call}"], np.float32(largest), what=f"largest_seen after call {call + 1}", hints=hints)
        exact = forward(found, seen.inputs, call)["out"]
        others = {words: forward(found, seen.inputs, call, sin=sin)["out"] for sin, words in SINS.items()}
        _close(seen.rank(0)[f"out{call}"], exact, f"the output of call {call + 1}", others)


def judge_gradients(seen: Any, found: Found) -> None:
    """Those of the last call."""
    call = len(found.calls) - 1
    right = backward(found, seen.inputs, call)
    through = backward(found, seen.inputs, call, through_maximum=True)
    sin = "the gradient that also flows through the largest magnitude; .item() cut it"
    for name, exact in right.items():
        others = {sin: through[name]}
        if not seen.inputs[f"x{call}"].any():
            others["a gradient that torch.where multiplies by 0 where limit / largest is infinite"] = np.full_like(exact, np.nan)
        _close(seen.rank(0)[name], exact, f"{name}, the gradient of {name[1:]}", others)


def _close(got: Array, exact: Array, what: str, others: dict[str, Array]) -> None:
    hints = Hints(others=others, suggestion="Compare with block(x, lengths) itself, which is right.")
    with about(what):
        assert_close(got, exact, allowed=RELATIVE * max(1e-30, float(np.abs(exact).max())), what=what, hints=hints)


SINS = {
    "always_scaled": "x scaled to the limit also where it is smaller",
    "never_scaled": "x not scaled down",
    "clamped": "x clamped to the limit, element by element",
    "one_more": "the output with one token too many kept",
    "unmasked": "the output with nothing set to 0 behind the lengths",
}


def forward(found: Found, inputs: dict[str, Array], call: int, *, sin: str = "") -> dict[str, Array]:
    """The found block's formula, step by step, in fp64."""
    x = inputs[f"x{call}"].astype(np.float64)
    weight, up, bias, down = (inputs[name].astype(np.float64) for name in ("weight", "up_weight", "up_bias", "down"))
    largest = np.abs(x).max()
    is_scaled = (largest > found.limit or (sin == "always_scaled" and largest > 0)) and sin != "never_scaled"
    scale = found.limit / largest if is_scaled else 1.0
    scaled = np.clip(x, -found.limit, found.limit) if sin == "clamped" else x * scale
    root = np.sqrt((scaled**2).mean(-1, keepdims=True) + found.eps)
    x_hat = scaled / root
    u = x_hat * weight @ up.T + bias
    gate, value = u[..., : found.hidden], u[..., found.hidden :]
    s = 1 / (1 + np.exp(-gate))
    out = scaled + (gate * s * value) @ down.T
    kept = np.arange(x.shape[1]) < inputs[f"lengths{call}"][:, None] + (sin == "one_more")
    kept = np.ones_like(kept)[..., None] if sin == "unmasked" else kept[..., None]
    return {"x": x, "scale": np.float64(scale), "scaled": scaled, "root": root, "x_hat": x_hat, "gate": gate, "value": value, "s": s,
            "kept": kept, "out": np.where(kept, out, 0.0)}  # fmt: skip


def backward(found: Found, inputs: dict[str, Array], call: int, *, through_maximum: bool = False) -> dict[str, Array]:
    """Gradients of x and the parameters under `d`, in fp64."""
    f, d = forward(found, inputs, call), inputs["d"].astype(np.float64)
    weight, up, down = (inputs[name].astype(np.float64) for name in ("weight", "up_weight", "down"))
    d_out = np.where(f["kept"], d, 0.0)
    h = f["gate"] * f["s"] * f["value"]
    dh = d_out @ down
    slope = f["s"] + f["gate"] * f["s"] * (1 - f["s"])
    du = np.concatenate([dh * f["value"] * slope, dh * f["gate"] * f["s"]], -1)
    normed = f["x_hat"] * weight
    d_normed = du @ up
    g = d_normed * weight
    d_scaled = d_out + (g - f["x_hat"] * (g * f["x_hat"]).mean(-1, keepdims=True)) / f["root"]
    dx = d_scaled * f["scale"]
    if through_maximum and f["scale"] < 1:
        at = np.unravel_index(np.abs(f["x"]).argmax(), f["x"].shape)
        dx[at] -= (d_scaled * f["x"]).sum() * f["scale"] / f["x"][at]
    flat = lambda each: each.reshape(-1, each.shape[-1])  # noqa: E731
    return {
        "dx": dx,
        "dweight": flat(d_normed * f["x_hat"]).sum(0),
        "dup_weight": flat(du).T @ flat(normed),
        "dup_bias": flat(du).sum(0),
        "ddown": flat(d_out).T @ flat(h),
    }


# --- graphs ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Graphs:
    """What Dynamo is asked to trace: one block called with many shapes, one with a small batch and one with a large one, one for Inductor.

    All of it is one observation, since importing Dynamo and Inductor takes longer than everything that they then do.
    """

    shapes: tuple[tuple[int, int], ...]
    small: tuple[int, int]
    large: tuple[int, int]
    for_inductor: tuple[int, int] | None = None
    limit: float = 3.0

    def traced(self) -> list[dict[str, Any]]:
        """The entries that the probe works through."""
        entries = [(self.shapes, True, False), ((self.small,), False, False), ((self.large,), False, False)]
        entries += [((self.for_inductor,), False, True)] if self.for_inductor else []
        return [{"shapes": [list(shape) for shape in shapes], "is_dynamic": is_dynamic, "inductor": inductor}
                for shapes, is_dynamic, inductor in entries]  # fmt: skip


def run_graphs(observe: Any, graphs: Graphs, *, kind: str = "") -> Any:
    """Dynamo's graphs of ready blocks."""
    return observe("graphs", inputs={}, returns={}, limit=graphs.limit, sizes=[8, 12], traced=graphs.traced(), limits=ENOUGH, host=HOST,
                   kind=kind, **at_home())  # fmt: skip


def judge_one_graph(seen: Any, entry: int = 0) -> None:
    """One graph for all calls, and no break."""
    facts = seen.facts(0)["traced"][entry]
    if "raised" in facts:
        raise LawBroken(
            Message(
                seen=f"torch.compile raised {facts['raised']}.",
                allowed="Expected: one graph, no break.",
                diagnosis="There is no graph, because tracing the ready block fails.",
                suggestion="Call torch.compile(compile_ready(block), backend='eager', fullgraph=True) yourself.",
            )
        )
    if facts["breaks"]:
        raise LawBroken(
            Message(
                seen=f"Graph breaks of {len(facts['breaks'])} kinds, {len(facts['num_operations'])} graphs.",
                allowed="Expected: one graph, no break.",
                where="\n".join(facts["breaks"]),
                diagnosis="The graph breaks: Python must know a number that only the tensor knows, or does what Dynamo can't follow.",
                suggestion="torch.compile(module, fullgraph=True) names the line. Compute both branches; mask instead of looping.",
            )
        )
    if len(facts["num_operations"]) != 1:
        number = len(facts["num_operations"])
        what = f"{number} graphs for one block: a recompilation." if number else "No graph at all: there is nothing for torch.compile."
        words = "Does a Python number change from call to call, or is a size or a length written into the graph?"
        allowed = "Expected: one graph for all values, lengths and sizes."
        raise LawBroken(Message(seen=what, allowed=allowed, diagnosis=what, suggestion=words))


def judge_size(seen: Any) -> None:
    """As many operations for a large batch as for a small one, and few."""
    judge_one_graph(seen, 1)
    judge_one_graph(seen, 2)
    few, many = (each["num_operations"][0] for each in seen.facts(0)["traced"][1:3])
    if few != many or many > NUM_OPERATIONS_LIMIT:
        raise LawBroken(
            Message(
                seen=f"The graph has {few} operations for a small batch and {many} for a large one.",
                allowed=f"Expected: the same number, {NUM_OPERATIONS_LIMIT} at most.",
                diagnosis="A loop over the batch was unrolled into the graph's operations." if few != many else "Too many operations.",
                suggestion="Work on whole tensors: compare torch.arange(T) with lengths[:, None].",
            )
        )


def judge_kernels(seen: Any) -> None:
    """Few kernels in Inductor's schedule of the forward pass."""
    facts = seen.facts(0)["traced"][3]
    counted = facts.get("num_kernels", [])
    if len(counted) != 1 or counted[0] > NUM_KERNELS_LIMIT:
        raise LawBroken(
            Message(
                seen=facts.get("raised") or f"Inductor makes {' + '.join(map(str, counted)) or 'no'} kernels of the forward pass.",
                allowed=f"Allowed: {NUM_KERNELS_LIMIT} of one graph.",
                diagnosis="Too many kernels, or none.",
                suggestion="What is done row by row, or copied for every sequence, becomes kernels of its own.",
            )
        )


# --- who shares a kernel ---------------------------------------------------------------------------------------------
def judge_predictions(observe: Any, chains: list[Chain], *, kind: str = "") -> None:
    """predicted_kernels of each chain, by the five rules of section 8."""
    seen = observe("predicted", inputs={}, returns={}, chains=chains, host="an answer, not a computation", kind=kind, **at_home())
    for chain, told in zip(chains, seen.facts(0)["told"], strict=True):
        right = kernels_of(chain)
        if told != right:
            raise LawBroken(
                Message(
                    seen=f"predicted_kernels: {told}",
                    allowed=f"Expected: {right}, which is {len(right)} kernel{'s' * (len(right) != 1)}.",
                    where=" -> ".join(f"{name} ({what}{'' if dim is None else f', dim {dim}'})" for name, what, dim in chain),
                    diagnosis=_about_kernels(told, right, chain),
                    suggestion="Go through the chain once, with one question for each operation: is the last kernel open for it?",
                )
            )


def kernels_of(chain: Chain, *, sin: str = "") -> list[list[str]]:
    """Cut first, then group: where may no kernel reach across? `sin`: a well-known wrong way, for the messages."""
    names, cuts = [op for op in chain if op[1] in ("pointwise", "reduction", "matmul")], set()
    place, dims = 0, set()
    for _, what, dim in chain:
        if what in ("break", "matmul") or (what, sin) == ("view", "view_cuts"):
            cuts.add(place)
            dims = dims if sin == "never_forgets" else set()
        if what == "reduction" and not (dim == 0 and sin == "dim_0_is_none"):
            if dims - {dim}:
                cuts.add(place)
                dims = set()
            dims.add(dim)
        if what in ("pointwise", "reduction", "matmul"):
            place += 1
        if what == "matmul":
            cuts.add(place)
    bounds = sorted(cuts | {0, len(names)})
    return [[name for name, _, _ in names[a:b]] for a, b in pairwise(bounds)]


KERNEL_SINS = {
    "view_cuts": "A view closes a kernel here, and it costs nothing.",
    "never_forgets": "The dim of a kernel that is closed still counts: a new kernel has reduced over no dim yet.",
    "dim_0_is_none": "A reduction over dim 0 counts for none: is the dim asked for by its truth?",
}


def _about_kernels(told: list[list[str]], right: list[list[str]], chain: Chain) -> str:
    words = "In question: predicted_kernels. "
    if sins := [about_it for sin, about_it in KERNEL_SINS.items() if kernels_of(chain, sin=sin) == told]:
        return words + sins[0]
    if [name for kernel in told for name in kernel] != [name for kernel in right for name in kernel]:
        return words + "Which operations are in kernels differs: a view and a break are in none, everything else is in one, in order."
    return words + ("Too much is put together." if len(told) < len(right) else "More could share a kernel.")
