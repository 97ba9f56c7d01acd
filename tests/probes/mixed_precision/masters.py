"""Master weights and the optimizer over them."""

from __future__ import annotations

import gc
import io
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

OPTIMIZERS: dict[str, Callable[[list[dict[str, Any]]], torch.optim.Optimizer]] = {
    "sgd": lambda groups: torch.optim.SGD(groups, lr=0.01),
    "momentum": lambda groups: torch.optim.SGD(groups, lr=0.01, momentum=0.9),
    "adamw": lambda groups: torch.optim.AdamW(groups, lr=0.01, weight_decay=0.1),
}


def parameters_of(at: Any, dtype: str) -> list[nn.Parameter]:
    """Inputs w0, w1, ... as parameters in a dtype."""
    names = sorted(name for name in at.inputs if name.startswith("w"))
    return [nn.Parameter(at.inputs[name].to(getattr(torch, dtype))) for name in names]


def many_small_steps(at: Any, *, dtype: str, num_steps: int, learning_rate: float) -> dict[str, Tensor]:
    """SGD with the same gradients in each step: the weights in the end, and how many had moved half-way."""
    (weight,) = parameters_of(at, dtype)
    optimizer = at.submission.MasterWeights(lambda groups: torch.optim.SGD(groups, lr=learning_rate), [weight])
    for _ in range(num_steps):
        weight.grad = at.inputs["g"].to(weight.dtype)
        optimizer.step()
        optimizer.zero_grad()
    return {"w": weight.detach().double()}


def master_steps(at: Any, *, dtype: str, optimizer: str, num_steps: int, missing: list[list[int]], frozen: list[int]) -> dict[str, Tensor]:
    """Steps with the gradients of "g" (steps x parameters x size), of which those in missing[step] are None.

    After each step: parameters and masters. As facts: dtypes, numbers of masters, whether parameters are still the same tensors.
    """
    weights = parameters_of(at, dtype)
    for index in frozen:
        weights[index].requires_grad_(False)
    wrapper = at.submission.MasterWeights(OPTIMIZERS[optimizer], weights)
    memories = [weight.data_ptr() for weight in weights]
    seen_weights, seen_masters = [], []
    for step in range(num_steps):
        for index, weight in enumerate(weights):
            absent = index in missing[step] or index in frozen
            weight.grad = None if absent else at.inputs["g"][step, index].to(weight.dtype)
        wrapper.step()
        masters = [master for group in wrapper.param_groups for master in group["params"]]
        seen_weights.append(torch.stack([weight.detach().double() for weight in weights]))
        seen_masters.append(torch.stack([master.detach().double() for master in masters]))
        wrapper.zero_grad()
    state = [tensor for tensor in tensors_in(wrapper.state_dict()) if tensor.dim()]
    at.report(
        master_dtypes=sorted({str(master.dtype).removeprefix("torch.") for master in masters}),
        moment_dtypes=sorted({str(value.dtype).removeprefix("torch.") for value in state}),
        num_masters=len(masters),
        same_tensors=memories == [weight.data_ptr() for weight in weights],
        gradients_left=sum(tensor.grad is not None for tensor in [*weights, *masters]),
    )
    return {"weights": torch.stack(seen_weights), "masters": torch.stack(seen_masters)}


def tensors_in(value: Any) -> list[Tensor]:
    """Every tensor in nested dicts, lists and tuples."""
    if isinstance(value, Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for item in items for tensor in tensors_in(item)]


def skipped_decay(at: Any, *, dtype: str) -> dict[str, Tensor]:
    """AdamW with a large decay: a step with gradients, zero_grad, and a step without any."""
    weights = parameters_of(at, dtype)
    wrapper = at.submission.MasterWeights(lambda groups: torch.optim.AdamW(groups, lr=0.1, weight_decay=0.5), weights)
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    wrapper.step()
    wrapper.zero_grad()
    masters = [master for group in wrapper.param_groups for master in group["params"]]
    before = [torch.stack([tensor.detach().double() for tensor in tensors]) for tensors in (weights, masters)]
    wrapper.step()
    after = [torch.stack([tensor.detach().double() for tensor in tensors]) for tensors in (weights, masters)]
    return dict(zip(("weights_before", "masters_before", "weights_after", "masters_after"), [*before, *after], strict=True))


def scheduled(at: Any, *, dtype: str, rates: list[list[float]]) -> dict[str, Tensor]:
    """SGD with a group for each parameter; rates[step][group] is set in param_groups before the step. The masters after each step."""
    weights = parameters_of(at, dtype)
    groups = [{"params": [weight], "lr": rates[0][index]} for index, weight in enumerate(weights)]
    wrapper = at.submission.MasterWeights(lambda given: torch.optim.SGD(given, lr=123.0), groups)
    seen = []
    for step, step_rates in enumerate(rates):
        for group, rate in zip(wrapper.param_groups, step_rates, strict=False):  # how many there are is reported
            if step:  # the first step's rates are those that the groups were made with
                group["lr"] = rate
        for index, weight in enumerate(weights):
            weight.grad = at.inputs["g"][step, index].to(weight.dtype)
        wrapper.step()
        wrapper.zero_grad()
        seen.append(torch.stack([master.detach().double() for group in wrapper.param_groups for master in group["params"]]))
    at.report(num_groups=len(wrapper.param_groups))
    return {"masters": torch.stack(seen)}


def resumed(at: Any, *, dtype: str, optimizer: str, num_steps: int, save_at: int) -> dict[str, Tensor]:
    """Parameters and masters after all steps: in one go, and with a save, a reload over parameters that are zeros, and the rest.

    "once_more" is that from the same state dict a second time.
    """

    def go(wrapper: Any, weights: list[nn.Parameter], start: int, stop: int) -> None:
        for step in range(start, stop):
            if step == 1:  # a schedule's doing, which only the state dict knows of afterwards
                wrapper.param_groups[0]["lr"] = 0.02
            for index, weight in enumerate(weights):
                weight.grad = at.inputs["g"][step, index].to(weight.dtype)
            wrapper.step()
            wrapper.zero_grad()

    def everything(wrapper: Any, weights: list[nn.Parameter]) -> Tensor:
        masters = [master for group in wrapper.param_groups for master in group["params"]]
        return torch.stack([tensor.detach().double() for tensor in [*weights, *masters]])

    weights = parameters_of(at, dtype)
    wrapper = at.submission.MasterWeights(OPTIMIZERS[optimizer], weights)
    go(wrapper, weights, 0, save_at)
    state, file = wrapper.state_dict(), io.BytesIO()
    checkpoint = [weight.detach().clone() for weight in weights]
    go(wrapper, weights, save_at, num_steps)  # what was saved must not change with this
    torch.save(state, file)
    file.seek(0)
    others = [nn.Parameter(torch.zeros_like(weight)) for weight in checkpoint]
    again = at.submission.MasterWeights(OPTIMIZERS[optimizer], others)
    kept = torch.load(file, weights_only=False)
    again.load_state_dict(kept)
    loaded = torch.stack([other.detach().double() for other in others])
    go(again, others, save_at, num_steps)
    ends = {"in_one_go": everything(wrapper, weights), "resumed": everything(again, others)}
    again.load_state_dict(kept)  # back to where it was: what was loaded must not have changed with the steps since
    go(again, others, save_at, num_steps)
    return ends | {"once_more": everything(again, others), "loaded": loaded,
                   "checkpoint": torch.stack([weight.double() for weight in checkpoint])}  # fmt: skip


def held_between_steps(at: Any, *, dtype: str, size: int) -> None:
    """Bytes of float32 that a wrapper with Adam holds after a step, over one parameter of `size` numbers, by every reachable tensor."""
    weight = nn.Parameter(torch.zeros(size, dtype=getattr(torch, dtype)))
    wrapper = at.submission.MasterWeights(OPTIMIZERS["adamw"], [weight])
    weight.grad = torch.ones_like(weight)
    wrapper.step()
    gc.collect()
    alive = {item.untyped_storage()._cdata: item for item in gc.get_objects() if isinstance(item, Tensor) and item.numel() == size}
    gradients = [item.grad for item in alive.values() if item.is_leaf and item.grad is not None]
    alive |= {item.untyped_storage()._cdata: item for item in gradients}
    moments = wrapper.param_groups[0]["params"][0].grad is None
    at.report(num_float32=sum(item.dtype == torch.float32 for item in alive.values()), master_gradient_dropped=moments)
