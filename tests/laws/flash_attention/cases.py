"""Cases of attention: shapes, dtypes, values, and the runs that the laws look at.

Equal requests share one run, so laws that can look at the same tensors ask for them in the same words.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import ml_dtypes
import numpy as np

from grader.errors import NotJudged
from grader.records import Limits
from tests.laws.flash_attention.oracle import Array, Attention, forward

Values = Literal["normal", "large", "offset", "peaked"]
Layout = Literal["plain", "tokens_first", "sliced", "broadcast", "mixed"]

HAS_TRITON = find_spec("triton") is not None
ENOUGH = Limits(cpu_s=60, wall_s=60)  # an interpreted kernel on a slow and busy machine
LARGE_SCORE = 1e4
COUNTED = "bytes and races are counted by Triton's interpreter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One attention problem. `values`: how q, k and v are drawn; `layout`: how they lie in memory."""

    batch: int = 1
    heads: int = 2
    kv_heads: int | None = None
    queries: int
    keys: int | None = None
    head_dim: int = 32
    dtype: str = "float32"
    causal: bool = False
    scale: float | None = None
    block_q: int | None = 32
    block_k: int | None = 32
    values: Values = "normal"
    layout: Layout = "plain"

    @property
    def of(self) -> Attention:
        """What is asked of any implementation."""
        return Attention(causal=self.causal, scale=self.scale)

    @property
    def q_shape(self) -> tuple[int, int, int, int]:
        """(B, H, T, D)."""
        return self.batch, self.heads, self.queries, self.head_dim

    @property
    def k_shape(self) -> tuple[int, int, int, int]:
        """(B, G, S, D)."""
        return self.batch, self.kv_heads or self.heads, self.keys or self.queries, self.head_dim

    def options(self) -> dict[str, Any]:
        """The keyword arguments of the student's function."""
        return {"causal": self.causal, "scale": self.scale, "block_q": self.block_q, "block_k": self.block_k}

    def draw(self, rng: np.random.Generator) -> dict[str, Array]:
        """q, k, v and do, rounded to the case's dtype."""
        shapes = {"q": self.q_shape, "k": self.k_shape, "v": self.k_shape, "do": self.q_shape}
        drawn = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
        if self.values == "large":
            _make_large(drawn, rng, self.of.scale_for(self.head_dim))
        elif self.values == "offset":  # sums that grow: what is lost in a narrow accumulator shows
            drawn |= {name: drawn[name] + 1.0 for name in ("v", "do")}
        elif self.values == "peaked":  # few keys carry a row, so that errors of its scores don't average out
            drawn["q"] *= 2.0
        if self.layout == "broadcast":
            drawn |= {name: np.repeat(drawn[name][:1], self.batch, 0) for name in ("k", "v")}
            drawn["do"] = np.full(self.q_shape, drawn["do"].flat[0])
        kind = np.dtype(getattr(ml_dtypes, self.dtype, self.dtype))
        return {name: values.astype(kind) for name, values in drawn.items()}


def _make_large(drawn: dict[str, Array], rng: np.random.Generator, scale: float) -> None:
    """Scores around +LARGE_SCORE in every second row and around -LARGE_SCORE in the others, which differ by a few within a row."""
    head_dim = drawn["q"].shape[-1]
    direction = rng.choice([-1.0, 1.0], head_dim)
    size = np.sqrt(LARGE_SCORE / scale / head_dim)
    sign = np.where(np.arange(drawn["q"].shape[2]) % 2, -1.0, 1.0)[:, None]
    drawn["q"] = sign * size * direction + drawn["q"] / 8
    drawn["k"] = size * direction + drawn["k"] / 8


# --- runs ------------------------------------------------------------------------------------------------------------
def need_triton() -> None:
    """NotJudged on a platform without Triton."""
    if not HAS_TRITON:
        raise NotJudged("Triton is not available for this platform; tiled attention is judged all the same")


def run_forward(
    observe: Any, case: Case, function: str, *, num_watched: int = 0, limits: Limits = ENOUGH, kind: str = "", **more: Any
) -> Any:
    """One forward pass -> o, lse, and the inputs as they were left. `function`: tiled_attention or flash_attention_forward.

    `num_watched`: so many passes under the eyes of the interpreter -> the first one's o and lse as well, and facts.
    """
    if function != "tiled_attention":
        need_triton()

    def inputs(rng: np.random.Generator) -> dict[str, Array]:
        drawn = case.draw(rng)
        return {name: drawn[name] for name in ("q", "k", "v")}

    returns = {"o": (case.dtype, case.q_shape), "lse": ("float32", case.q_shape[:3])}
    if num_watched:
        returns |= {f"{name}.first": spec for name, spec in returns.items()}
    seen = observe(
        "forward", inputs=inputs, returns=returns | _left(case, ("q", "k", "v")), function=function, layout=case.layout,
        num_watched=num_watched, limits=limits, kind=kind or words_for(case), host=COUNTED if num_watched else "",
        **home(), **case.options(), **more,
    )  # fmt: skip
    _refuse_broken_bfloat16(seen, case)
    return seen


def run_backward(observe: Any, case: Case, function: str, *, limits: Limits = ENOUGH, kind: str = "", **more: Any) -> Any:
    """One backward pass, given o and lse of an exact forward pass -> dq, dk, dv, and the inputs as they were left."""
    if function != "tiled_attention_backward":
        need_triton()

    def inputs(rng: np.random.Generator) -> dict[str, Array]:
        drawn = case.draw(rng)
        exact = forward(case.of, drawn["q"], drawn["k"], drawn["v"])
        return drawn | {"o": exact["o"].astype(drawn["q"].dtype), "lse": exact["lse"].astype(np.float32)}

    returns = {"dq": (case.dtype, case.q_shape), "dk": (case.dtype, case.k_shape), "dv": (case.dtype, case.k_shape)}
    seen = observe(
        "backward", inputs=inputs, returns=returns | _left(case, ("q", "k", "v", "do")), function=function, layout=case.layout,
        limits=limits, kind=kind or words_for(case), host=COUNTED if more.get("is_watched") else "",
        **home(), **case.options(), **more,
    )  # fmt: skip
    _refuse_broken_bfloat16(seen, case)
    return seen


def run_autograd(observe: Any, case: Case, *, kind: str = "", **more: Any) -> Any:
    """flash_attention and backward() -> o, dq, dk, dv, and what was kept between them."""
    need_triton()
    returns = {
        "o": (case.dtype, case.q_shape),
        "dq": (case.dtype, case.q_shape),
        "dk": (case.dtype, case.k_shape),
        "dv": (case.dtype, case.k_shape),
    }
    return observe(
        "autograd", inputs=case.draw, returns=returns, layout=case.layout, limits=ENOUGH, kind=kind or words_for(case), **home(),
        options=case.options(), **more,
    )  # fmt: skip


def run_compiled(observe: Any, *, capability: int, head_dim: int, block: int | None, backward: bool, kind: str = "") -> Any:
    """The kernels compiled for a chip that isn't there, in float16, causal."""
    need_triton()
    return observe("compiled", transport="none", flavour="compiler", limits=Limits(cpu_s=120, wall_s=120), capability=capability,
                   head_dim=head_dim, block=block, is_backward=backward, kind=kind or f"compiled for sm_{capability}")  # fmt: skip


def words_for(case: Case) -> str:
    """What a student may know of a hidden case."""
    parts = [
        case.dtype,
        "causal" if case.causal else "not causal",
        f"{case.queries} queries and {case.k_shape[2]} keys",
        f"head dim {case.head_dim}",
    ]
    parts += ["a scale of its own"] if case.scale is not None else []
    parts += [f"{case.heads} query heads on {case.k_shape[1]} key heads"] if case.k_shape[1] != case.heads else []
    parts += [f"scores around ±{LARGE_SCORE:g}"] if case.values == "large" else []
    parts += [f"layout: {case.layout.replace('_', ' ')}"] if case.layout != "plain" else []
    return ", ".join(parts)


def home() -> dict[str, Any]:
    """Where the functions run. Without Triton the tasks in PyTorch run all the same."""
    return {"transport": "none", "flavour": "interpreter" if HAS_TRITON else "torch"}


def _left(case: Case, names: tuple[str, ...]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The inputs, declared as outputs once more: they come back as the call left them."""
    return {f"{name}.after": (case.dtype, case.k_shape if name in "kv" else case.q_shape) for name in names}


def _refuse_broken_bfloat16(seen: Any, case: Case) -> None:
    if case.dtype == "bfloat16" and seen.fault is None and (broken := seen.facts(0).get("broken_bfloat16")):
        raise NotJudged(f"Triton's interpreter computes bfloat16 wrongly on this machine ({', '.join(broken)}); a GPU is needed")
