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
    # region solution round_to
    exact = x.double()
    smallest_exponent = 2 - 2 ** (exponent_bits - 1)  # of normal numbers: -14 in fp16, -126 in bf16
    largest_exponent = 2 ** (exponent_bits - 1) - 1
    # frexp gives a fraction in [0.5, 1), so the leading bit is one below its exponent. Numbers between two powers of two are spaced
    # evenly; below the smallest normal number the spacing shrinks no further: those are the subnormals.
    exponent = (torch.frexp(exact).exponent - 1).clamp(min=smallest_exponent)
    spacing = torch.ldexp(torch.ones_like(exact), exponent - mantissa_bits)
    rounded = (exact / spacing).round() * spacing  # round() takes ties to even; dividing by a power of two is exact
    # What rounds up to the next power of two beyond the range has no number to go to.
    largest = (2 - 2.0**-mantissa_bits) * 2.0**largest_exponent
    overflown = torch.where(rounded.abs() > largest, torch.copysign(torch.full_like(exact, math.inf), exact), rounded)
    return torch.where(exact.isfinite(), overflown, exact).to(x.dtype)
    # endregion


# --- task casting ----------------------------------------------------------------------------------------------------
def precision_of(operation: str) -> Precision:
    """In which precision an operation of this name runs, such as "matmul" or "softmax". Never graded by itself."""
    # region solution precision_of
    # Products are where the time goes, their sums are kept in fp32 inside the hardware, and each output is rounded once.
    narrow = {
        "linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "mv", "addmm", "baddbmm", "einsum",
        "conv1d", "conv2d", "conv3d", "scaled_dot_product_attention",
    }  # fmt: skip
    # Long sums lose small terms, exponentials and powers leave fp16's range, and losses are both.
    wide = {
        "softmax", "log_softmax", "logsumexp", "exp", "log", "pow", "__pow__", "__rpow__", "rsqrt", "sum", "mean", "prod", "cumsum", "var",
        "std", "norm", "layer_norm", "rms_norm", "group_norm", "cross_entropy", "nll_loss", "mse_loss", "binary_cross_entropy_with_logits",
    }  # fmt: skip
    return "narrow" if operation in narrow else "wide" if operation in wide else "as_given"
    # endregion


class CastPolicy(TorchFunctionMode):
    """While it is active, torch's functions get their arguments cast: `with CastPolicy(torch.float16): loss = model(x, y)`.

    Products run in `dtype`, sensitive functions in float32, all others with what they are given. May be entered again and again.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Every call of a torch function comes through here; `func.__name__` is its name. Inside, the mode is off."""
        # region solution cast
        kwargs = kwargs or {}
        precision = precision_of(func.__name__)
        if precision == "as_given":
            return func(*args, **kwargs)
        target = self.dtype if precision == "narrow" else torch.float32

        def cast(value: Any) -> Any:
            # Token numbers, masks, sizes and float64 are none of our business. einsum takes its tensors in a list.
            if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
                return type(value)(map(cast, value))
            castable = isinstance(value, Tensor) and value.dtype in (torch.float32, torch.float16, torch.bfloat16)
            # `to` is recorded by autograd: the gradient of an fp32 weight comes back in fp32, whatever it was multiplied in.
            return value.to(target) if castable else value

        return func(*map(cast, args), **{name: cast(value) for name, value in kwargs.items()})
        # endregion


# --- task masters ----------------------------------------------------------------------------------------------------
class MasterWeights:
    """An optimizer over fp32 copies of 16-bit parameters; the parameters are the copies' rounded images.

    `param_groups` are those of the inner optimizer: they hold the masters, and changing a group's "lr" there changes the step.
    """

    def __init__(self, make_optimizer: Callable[[list[dict[str, Any]]], torch.optim.Optimizer], params: Iterable[Any]) -> None:
        """params: parameters, or groups of them (dicts with "params" and settings), as of any optimizer.

        `make_optimizer(groups)` is called once, with groups of masters. Parameters that don't require grad have no master.
        """
        # region solution masters_init
        given = list(params)
        groups = given if given and isinstance(given[0], dict) else [{"params": given}]
        self.pairs: list[tuple[Tensor, Tensor]] = []
        master_groups = []
        for group in groups:
            pairs = [(p, p.detach().clone().float()) for p in group["params"] if p.requires_grad]
            self.pairs += pairs
            master_groups.append({**group, "params": [master for _, master in pairs]})
        self.optimizer = make_optimizer(master_groups)
        self.collected = False
        # endregion

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The inner optimizer's groups."""
        return self.optimizer.param_groups

    def collect_gradients(self) -> None:
        """Hand the parameters' gradients to their masters, in fp32. Once before each step: by the caller or the scaler, or else by `step`.

        After that the masters' gradients may be changed (unscaled, clipped); `step` takes them as they are.
        """
        # region solution collect_gradients
        if self.collected:
            return  # a second time would undo what was done to the masters' gradients since
        for parameter, master in self.pairs:
            master.grad = None if parameter.grad is None else parameter.grad.detach().float()
        self.collected = True
        # endregion

    @torch.no_grad()
    def step(self) -> None:
        """Let the inner optimizer change the masters, and round them into the parameters. Without a gradient, neither changes."""
        # region solution masters_step
        self.collect_gradients()
        self.optimizer.step()
        for parameter, master in self.pairs:
            # From master to parameter and never back: what a parameter is too coarse to hold, its master has kept.
            parameter.copy_(master)
            master.grad = None  # lives for the step only: 4 bytes a parameter less between steps
        self.collected = False
        # endregion

    def zero_grad(self) -> None:
        """Drop all gradients, the parameters' and the masters'."""
        # region solution masters_zero_grad
        for parameter, master in self.pairs:
            parameter.grad = master.grad = None
        self.collected = False  # also after a step that was skipped
        # endregion

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on exactly: a copy, which later steps don't change."""
        # region solution masters_state_dict
        state = {"optimizer": self.optimizer.state_dict(), "masters": [master for _, master in self.pairs]}
        return copy.deepcopy(state)
        # endregion

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state_dict() of the same parameters: masters, moments, settings, and the parameters themselves."""
        # region solution masters_load_state_dict
        # A copy: the optimizer takes the moments in as they are, and its steps would then change the caller's state.
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        for (parameter, master), saved in zip(self.pairs, state["masters"], strict=True):
            master.copy_(saved)  # the rounded parameters of a checkpoint don't know these bits
            parameter.copy_(master)
        # endregion


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
        # region solution scale
        return loss * self.current_scale
        # endregion

    @torch.no_grad()
    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of the optimizer's param_groups by the scale, in place, and remember whether one is not finite.

        An optimizer that has `collect_gradients` (MasterWeights) is asked to, first. Twice in a step is a RuntimeError.
        """
        # region solution unscale
        if self.is_unscaled:
            raise RuntimeError("the gradients of this step are unscaled already: unscale_ comes once between update and update")
        # Into fp32 first: what the scale has lifted into fp16's range, dividing in fp16 would drop again.
        getattr(optimizer, "collect_gradients", lambda: None)()
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.found_non_finite |= not bool(parameter.grad.isfinite().all())
                    parameter.grad.mul_(1 / self.current_scale)
        self.is_unscaled = True
        # endregion

    def step(self, optimizer: Any) -> bool:
        """Unscale, unless that was done; then step, unless a gradient is not finite. Return whether it stepped."""
        # region solution scaler_step
        if not self.is_unscaled:
            self.unscale_(optimizer)
        if self.found_non_finite:
            return False  # not one weight, not one moment: an infinity in Adam's would never leave
        optimizer.step()
        return True
        # endregion

    def update(self) -> None:
        """End the step: back off at once after an overflow, grow after growth_interval good steps in a row."""
        # region solution update
        if self.found_non_finite:
            self.current_scale *= self.backoff_factor
            self.num_good_steps = 0
        else:
            self.num_good_steps += 1
            if self.num_good_steps == self.growth_interval:
                self.current_scale *= self.growth_factor
                self.num_good_steps = 0
        self.is_unscaled = self.found_non_finite = False
        # endregion

    def state_dict(self) -> dict[str, Any]:
        """The scale, the settings, and how many good steps there were since it changed."""
        # region solution scaler_state_dict
        return {name: value for name, value in vars(self).items() if name not in ("is_unscaled", "found_non_finite")}
        # endregion

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state_dict(), whatever this scaler was made with."""
        # region solution scaler_load_state_dict
        vars(self).update(state)
        # endregion


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
    # region solution train_step
    with policy or contextlib.nullcontext():
        value = loss(model(inputs), targets)
    # Backward outside: each operation's gradient runs in the dtype that the operation ran in.
    (scaler.scale(value) if scaler else value).backward()
    if scaler:
        scaler.unscale_(optimizer)
    else:
        getattr(optimizer, "collect_gradients", lambda: None)()
    # max_norm is meant for the true gradients: clipped before unscaling, they would all be clipped, and then divided.
    norm = nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], max_norm)
    if scaler:
        stepped = scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
        stepped = True
    optimizer.zero_grad()
    return StepReport(float(value.detach()), float(norm), stepped)
    # endregion
