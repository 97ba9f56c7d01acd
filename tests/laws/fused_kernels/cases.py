"""Cases of the three operations: shapes, dtypes, values, layouts, and the runs that the laws look at.

Equal requests share one run, so laws that can look at the same tensors ask for them in the same words.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from grader.errors import NotJudged
from grader.records import Limits, num_elements

Array = NDArray[Any]
Operation = Literal["rms_norm", "bias_gelu", "cross_entropy"]
Layout = Literal["plain", "sliced", "rows", "transposed", "broadcast", "far"]

HAS_TRITON = find_spec("triton") is not None
ENOUGH = Limits(cpu_s=60, wall_s=60)  # an interpreted kernel on a slow and busy machine
LARGE = 1e4
HOST_COUNTED = "bytes and races are counted by Triton's interpreter"
HOST_FAR = "6 GB of address space that are never touched"
PARAMETER = {"rms_norm": "weight", "bias_gelu": "bias", "cross_entropy": "targets"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One problem. `values`: how the rows are drawn; `layout`: how all tensors lie in memory; `ignored`: share of targets that are."""

    of: Operation
    shape: tuple[int, ...]
    dtype: str = "float32"
    wide_parameter: bool = False  # weight or bias is float32 whatever x is
    values: str = "normal"
    layout: Layout = "plain"
    eps: float | None = None
    ignore_index: int | None = None
    ignored: float = 0.0
    target_dtype: str = "int64"

    @property
    def parameter(self) -> str:
        """The second input's name."""
        return PARAMETER[self.of]

    @property
    def first(self) -> str:
        """The first input's name."""
        return "logits" if self.of == "cross_entropy" else "x"

    @property
    def parameter_dtype(self) -> str:
        """The second input's dtype."""
        return self.target_dtype if self.of == "cross_entropy" else "float32" if self.wide_parameter else self.dtype

    @property
    def parameter_shape(self) -> tuple[int, ...]:
        """(N,) targets, or (D,)."""
        return self.shape[:1] if self.of == "cross_entropy" else self.shape[-1:]

    @property
    def output(self) -> tuple[str, tuple[int, ...]]:
        """Dtype and shape of what the operation returns, and of the gradient that comes in."""
        return ("float32", ()) if self.of == "cross_entropy" else (self.dtype, self.shape)

    @property
    def ignoring(self) -> int:
        """The target that doesn't count."""
        return -100 if self.ignore_index is None else self.ignore_index

    @property
    def num_rows(self) -> int:
        """All leading dims together."""
        return num_elements(self.shape[:-1])

    def options(self) -> dict[str, Any]:
        """Keyword arguments of the student's function; defaults are left out."""
        found = {"eps": self.eps, "ignore_index": self.ignore_index}
        return {name: value for name, value in found.items() if value is not None}

    def draw(self, rng: np.random.Generator) -> dict[str, Array]:
        """The inputs in order of the function's arguments, and `d`, the gradient that comes in."""
        first = rng.standard_normal(self.shape)
        if self.of == "cross_entropy":
            return self._draw_logits(first, rng)
        parameter, d = 1.0 + rng.standard_normal(self.parameter_shape) / 2, rng.standard_normal(self.shape)
        if self.values == "offset":  # sums that grow: what is lost in a narrow accumulator shows
            first, d = first / 4 + 1.0, d + 1.0
        elif self.values == "large":  # squares overflow float16; for GELU, arguments where the tanh has long been 1
            first = np.sign(first) * rng.uniform(300, 1000, self.shape) * (10 if self.of == "bias_gelu" else 1)
        elif self.values == "tiny":  # squares vanish in float16
            first = first * 2.0**-13
        if self.layout == "broadcast" and len(self.shape) > 1 and self.num_rows:
            first, d = (np.broadcast_to(each[:1], self.shape) for each in (first, d))
        drawn = {"x": _rounded(first, self.dtype), self.parameter: _rounded(parameter, self.parameter_dtype)}
        return drawn | {"d": _rounded(d, self.dtype)}

    def _draw_logits(self, logits: Array, rng: np.random.Generator) -> dict[str, Array]:
        num_rows, num_classes = self.shape
        targets = rng.integers(0, num_classes, num_rows)
        ignore_index = self.ignoring
        if ignore_index >= 0:
            targets = np.where(targets == ignore_index, (targets + 1) % num_classes, targets)
        is_ignored = np.arange(num_rows) < round(self.ignored * num_rows)
        is_ignored = rng.permutation(is_ignored)
        targets = np.where(is_ignored, ignore_index, targets)
        if self.values == "large":  # every second row around LARGE, the others around -LARGE; a few classes stand out
            logits = logits * 4 + np.where(np.arange(num_rows) % 2, -LARGE, LARGE)[:, None]
        elif self.values == "falling":  # the largest comes first or last: the running maximum moves in every block, or never
            slope = np.linspace(-30, 30, num_classes) * np.where(np.arange(num_rows) % 2, -1, 1)[:, None]
            logits = logits + slope
        elif self.values == "masked":  # the first half of the vocabulary, whole blocks of it, and a class here and there
            is_masked = (np.arange(num_classes) < num_classes // 2) | (rng.random(logits.shape) < 0.1)
            is_masked[np.arange(num_rows), np.where(is_ignored, 0, targets)] = False
            logits = np.where(is_masked, -np.inf, logits * 3)
        elif self.values == "poisoned":  # ignored rows hold what must not matter
            logits = np.where(is_ignored[:, None], rng.choice([np.nan, np.inf, -np.inf, 1.0], logits.shape), logits * 3)
        else:
            logits = logits * 3
        if self.layout == "broadcast":
            logits = np.broadcast_to(logits[:1], logits.shape)
        incoming = np.float32(rng.uniform(2, 3))
        return {"logits": _rounded(logits, self.dtype), "targets": targets.astype(self.target_dtype), "d": incoming}


def _rounded(values: Array, dtype: str) -> Array:
    return np.ascontiguousarray(values).astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))


def as_if_contiguous(x: Array, layout: Layout) -> Array | None:
    """What is read of a tensor that the probe's laid_out has laid out, by the strides of contiguous memory; None where they are its own."""
    beside = np.array(0 if x.dtype.kind in "iu" else np.nan).astype(x.dtype)
    if layout == "transposed" and x.ndim > 1:
        return x.swapaxes(-1, -2).reshape(x.shape)
    if layout == "far" and x.ndim == 2:
        return np.where(np.arange(len(x))[:, None] == 0, x, np.zeros_like(x))
    if layout == "sliced" and x.ndim == 1:
        return np.where(np.arange(len(x)) % 2 == 0, np.repeat(x, 2)[: len(x)], beside)
    if layout in ("sliced", "rows") and x.ndim > 1:
        margins = [(2, 1), (3, 2)] if layout == "sliced" else [(0, 0), (0, 8)]
        memory = np.pad(x, [(0, 0)] * (x.ndim - 2) + margins, constant_values=beside)
        first = margins[0][0] * memory.shape[-1] + margins[1][0]
        return memory.reshape(-1)[first : first + x.size].reshape(x.shape)
    return None


# --- runs ------------------------------------------------------------------------------------------------------------
def run(
    observe: Any, case: Case, *, is_backward: bool = False, is_watched: bool = False, limits: Limits = ENOUGH, kind: str = ""
) -> Any:
    """Forward, and if asked backward -> y, the gradients, the inputs as they were left, and facts."""
    need_triton()
    specs = {case.first: (case.dtype, case.shape), case.parameter: (case.parameter_dtype, case.parameter_shape), "d": case.output}
    returns = {"y": case.output}
    if case.layout != "far":
        returns |= {f"{name}.after": spec for name, spec in specs.items()}
    if is_backward:
        differentiable = (case.first,) if case.of == "cross_entropy" else (case.first, case.parameter)
        returns |= {f"d{name}": specs[name] for name in differentiable}
    seen = observe(
        "operation", inputs=case.draw, returns=returns, function=case.of, layout=case.layout, options=case.options(),
        is_backward=is_backward, is_watched=is_watched, transport="none", flavour="interpreter", limits=limits,
        kind=kind or words_for(case), host=HOST_COUNTED if is_watched else HOST_FAR if case.layout == "far" else "",
    )  # fmt: skip
    if case.dtype == "bfloat16" and seen.fault is None and (broken := seen.facts(0).get("broken_bfloat16")):
        raise NotJudged(f"Triton's interpreter computes bfloat16 wrongly on this machine ({', '.join(broken)}); a GPU is needed")
    return seen


def run_compiled(observe: Any, of: Operation, *, capability: int) -> Any:
    """Both passes' kernels compiled for a chip that isn't there, in float16, with the sizes that the handout names."""
    need_triton()
    shape = [4, 70_001] if of == "cross_entropy" else [64, 1000]
    return observe("compiled", transport="none", flavour="compiler", limits=Limits(cpu_s=120, wall_s=120), function=of,
                   capability=capability, shape=shape, kind=f"compiled for sm_{capability}")  # fmt: skip


def need_triton() -> None:
    """NotJudged on a platform without Triton."""
    if not HAS_TRITON:
        raise NotJudged("Triton is not available for this platform; the tasks of bottlenecks.py are judged all the same")


def at_home(**more: Any) -> dict[str, Any]:
    """Where bottlenecks.py runs: beside the kernels, if there is Triton, since that process has been started anyway."""
    return {"transport": "none", "flavour": "interpreter" if HAS_TRITON else "torch"} | more


def words_for(case: Case) -> str:
    """What a student may know of a hidden case."""
    parts = [case.of, case.dtype, f"shape {case.shape}"]
    parts += [f"{case.parameter} in float32"] if case.wide_parameter and case.dtype != "float32" else []
    parts += [f"values: {case.values}"] if case.values != "normal" else []
    parts += [f"layout: {case.layout}"] if case.layout != "plain" else []
    parts += ["eps of its own"] if case.eps is not None else []
    parts += [f"ignore_index {case.ignore_index}"] if case.ignore_index is not None else []
    parts += ["some targets ignored" if case.ignored < 1 else "all targets ignored"] if case.ignored else []
    return ", ".join(parts)
