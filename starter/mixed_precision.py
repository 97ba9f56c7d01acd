"""Training in 16 bits without losing what 32 would keep: a casting policy, fp32 master weights, dynamic loss scaling, and the step.

torch.autocast and torch.amp.GradScaler do most of this; here it is built from a function mode and plain arithmetic.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

Precision = Literal["narrow", "wide", "as_given"]


# --- task formats ----------------------------------------------------------------------------------------------------
def round_to(x: Tensor, *, exponent_bits: int, mantissa_bits: int) -> Tensor:
    """Return x, float32 or float64, rounded to the numbers of an IEEE-like format with so many bits; new, in x's dtype and shape.

    To the nearest, ties to even; with subnormals; beyond the largest finite number infinite. NaN, infinities and signs of zeros stay.
    fp16 has 5 exponent and 10 mantissa bits, bf16 8 and 7, TF32 8 and 10, fp8 e5m2 5 and 2.
    """
    raise NotImplementedError("mixed_precision, task formats: see section 2 of the handout")


# --- task casting ----------------------------------------------------------------------------------------------------
def precision_of(operation: str) -> Precision:
    """In which precision an operation of this name runs, such as "matmul" or "softmax". Never graded by itself."""
    raise NotImplementedError("mixed_precision, task casting: see section 3 of the handout")


class CastPolicy(TorchFunctionMode):
    """While it is active, torch's functions get their arguments cast: `with CastPolicy(torch.float16): loss = model(x, y)`.

    Products run in `dtype`, sensitive functions in float32, all others with what they are given. May be entered again and again.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Every call of a torch function comes through here; `func.__name__` is its name. Inside, the mode is off."""
        raise NotImplementedError("mixed_precision, task casting: see section 3 of the handout")


# --- task masters ----------------------------------------------------------------------------------------------------
class MasterWeights:
    """An optimizer over fp32 copies of 16-bit parameters; the parameters are the copies' rounded images.

    `param_groups` are those of the inner optimizer: they hold the masters, and changing a group's "lr" there changes the step.
    """

    def __init__(self, make_optimizer: Callable[[list[dict[str, Any]]], torch.optim.Optimizer], params: Iterable[Any]) -> None:
        """params: parameters, or groups of them (dicts with "params" and settings), as of any optimizer.

        `make_optimizer(groups)` is called once, with groups of masters. Parameters that don't require grad have no master.
        """
        raise NotImplementedError("mixed_precision, task masters: see section 4 of the handout")

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The inner optimizer's groups."""
        return self.optimizer.param_groups

    def collect_gradients(self) -> None:
        """Hand the parameters' gradients to their masters, in fp32. Once before each step: by the caller or the scaler, or else by `step`.

        After that the masters' gradients may be changed (unscaled, clipped); `step` takes them as they are.
        """
        raise NotImplementedError("mixed_precision, task masters: see section 4 of the handout")

    @torch.no_grad()
    def step(self) -> None:
        """Let the inner optimizer change the masters, and round them into the parameters. Without a gradient, neither changes."""
        raise NotImplementedError("mixed_precision, task masters: see section 4 of the handout")

    def zero_grad(self) -> None:
        """Drop all gradients, the parameters' and the masters'."""
        raise NotImplementedError("mixed_precision, task masters: see section 4 of the handout")

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on exactly: a copy, which later steps don't change."""
        raise NotImplementedError("mixed_precision, task masters: see section 4 of the handout")

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state_dict() of the same parameters: masters, moments, settings, and the parameters themselves."""
        raise NotImplementedError("mixed_precision, task masters: see section 4 of the handout")


# --- task scaler -----------------------------------------------------------------------------------------------------
class DynamicLossScaler:
    """Multiplies the loss so that small fp16 gradients survive, and finds the factor by itself.

    One step: `scale(loss).backward()`, perhaps `unscale_(optimizer)` and clipping, `step(optimizer)`, `update()`.
    """

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5, growth_interval: int = 2000
    ) -> None:
        self.current_scale, self.growth_factor, self.backoff_factor = float(init_scale), growth_factor, backoff_factor
        self.growth_interval = growth_interval
        self.num_good_steps = 0  # since the scale last changed
        self.is_unscaled = False  # in this step
        self.found_non_finite = False  # in this step

    def get_scale(self) -> float:
        """The factor that the next loss is multiplied by."""
        return self.current_scale

    def scale(self, loss: Tensor) -> Tensor:
        """Return the loss times the scale."""
        raise NotImplementedError("mixed_precision, task scaler: see section 5 of the handout")

    @torch.no_grad()
    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of the optimizer's param_groups by the scale, in place, and remember whether one is not finite.

        An optimizer that has `collect_gradients` (MasterWeights) is asked to, first. Twice in a step is a RuntimeError.
        """
        raise NotImplementedError("mixed_precision, task scaler: see section 5 of the handout")

    def step(self, optimizer: Any) -> bool:
        """Unscale, unless that was done; then step, unless a gradient is not finite. Return whether it stepped."""
        raise NotImplementedError("mixed_precision, task scaler: see section 5 of the handout")

    def update(self) -> None:
        """End the step: back off at once after an overflow, grow after growth_interval good steps in a row."""
        raise NotImplementedError("mixed_precision, task scaler: see section 5 of the handout")

    def state_dict(self) -> dict[str, Any]:
        """The scale, the settings, and how many good steps there were since it changed."""
        raise NotImplementedError("mixed_precision, task scaler: see section 5 of the handout")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state_dict(), whatever this scaler was made with."""
        raise NotImplementedError("mixed_precision, task scaler: see section 5 of the handout")


# --- task step -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class StepReport:
    """What came of one training step, in the loss's own units."""

    loss: float
    gradient_norm: float  # before clipping; may be infinite or NaN in a step that was skipped
    stepped: bool


def train_step(
    model: Callable[[Tensor], Tensor],
    optimizer: Any,
    inputs: Tensor,
    targets: Tensor,
    loss: Callable[[Tensor, Tensor], Tensor],
    *,
    policy: CastPolicy | None = None,
    scaler: DynamicLossScaler | None = None,
    max_norm: float = math.inf,
) -> StepReport:
    """Forward and `loss(model(inputs), targets)` under the policy, backward, unscale, clip to max_norm, step, and drop the gradients.

    optimizer is a torch optimizer or MasterWeights. Without a scaler it always steps.
    """
    raise NotImplementedError("mixed_precision, task step: see section 6 of the handout")
