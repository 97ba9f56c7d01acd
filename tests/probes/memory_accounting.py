"""What runs beside a submission to `memory_accounting`: it asks for figures, and does real steps whose bytes it counts. No expected values.

A model is a row of the input "sizes" (in the order of SIZES) and an entry of `options`, which holds the rest of its config. What a probe
calls "held" was alive in this process; what it calls "counted" is the submission's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from torch.utils.checkpoint import checkpoint

SIZES = ("vocab_size", "max_tokens", "num_layers", "hidden_size", "num_heads", "num_kv_heads", "mlp_size")
STATES = ("weights", "gradients", "master_weights", "moments")
STAGE_PARTS = ("layers", "embedding", "head")


# --- the submission's figures ----------------------------------------------------------------------------------------
def parameters(at: Any, *, options: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """parameter_count of each model, and the parameters of the model itself, made on the meta device."""
    counted, held = [], []
    built: list[str] = []
    for config in configs(at, options):
        with modules_built(built):
            counted.append(number(at.submission.parameter_count(config), "parameter_count"))
        held.append(sum(parameter.numel() for parameter in model_of(config, torch.float32, "meta").parameters()))
    at.report(built=built)
    return {"counted": column(counted), "held": column(held)}


def states(at: Any, *, options: list[dict[str, Any]], recipes: list[list[str]]) -> dict[str, torch.Tensor]:
    """model_state_bytes of each model under its (precision, optimizer), and what such a step leaves alive; facts: and held before."""
    counted, held, steps = [], [], []
    for config, (precision, optimizer) in zip(configs(at, options), recipes, strict=True):
        counted.append(state_row(at.submission.model_state_bytes(config, precision, optimizer)))
        steps.append(states_alive(config, precision, optimizer))
        held.append(steps[-1]["after step"][: len(STATES)])
    at.report(steps=steps)
    return {"counted": column(counted), "held": column(held)}


def counted_states(at: Any, *, options: list[dict[str, Any]], recipes: list[list[str]]) -> dict[str, torch.Tensor]:
    """model_state_bytes alone, for models that no machine here could hold."""
    rows = [state_row(at.submission.model_state_bytes(c, p, o)) for c, (p, o) in zip(configs(at, options), recipes, strict=True)]
    return {"counted": column(rows)}


def sharded(at: Any, *, layouts: list[dict[str, int]]) -> dict[str, torch.Tensor]:
    """sharded_state_bytes of each row of the input "states", under its layout."""
    rows = []
    for row, layout in zip(at.inputs["states"].tolist(), layouts, strict=True):
        whole = at.submission.ModelStateBytes(**dict(zip(STATES, row, strict=True)))
        rows.append(state_row(at.submission.sharded_state_bytes(whole, **layout)))
    return {"counted": column(rows)}


def published_layers(at: Any, *, options: list[dict[str, Any]], layouts: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """published_layer_bytes of each model, micro-batch, sequence and layout."""
    asked = zip(configs(at, options), at.inputs["batches"].tolist(), layouts, strict=True)
    figures = [at.submission.published_layer_bytes(config, *batch, **layout) for config, batch, layout in asked]
    return {"counted": column([number(figure, "published_layer_bytes") for figure in figures])}


def published_stages(at: Any, *, options: list[dict[str, Any]], layouts: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """published_activation_bytes of each model, micro-batch, sequence and layout: layers, embedding, head."""
    rows = []
    for config, batch, layout in zip(configs(at, options), at.inputs["batches"].tolist(), layouts, strict=True):
        stage = at.submission.published_activation_bytes(config, *batch, **layout)
        rows.append([number(getattr(stage, part), f"published_activation_bytes(...).{part}") for part in STAGE_PARTS])
    return {"counted": column(rows)}


def activations(at: Any, *, options: list[dict[str, Any]], ways: list[list[Any]], device: str = "cpu") -> dict[str, torch.Tensor]:
    """activation_bytes of each model under its way (dtype, recompute), and what a real forward keeps for its backward."""
    counted, held = [], []
    built: list[str] = []
    for config, batch, (dtype, recompute) in zip(configs(at, options), at.inputs["batches"].tolist(), ways, strict=True):
        kind = getattr(torch, dtype)
        with modules_built(built):
            figure = at.submission.activation_bytes(config, *batch, dtype_bytes=kind.itemsize, recompute=recompute)
        counted.append(number(figure, "activation_bytes"))
        held.append(activations_kept(config, *batch, kind, recompute, device))
    at.report(built=built)
    return {"counted": column(counted), "held": column(held)}


def fits(at: Any, *, options: list[dict[str, Any]], ways: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """largest_micro_batch of each model on a device of the input "device_bytes", under its way."""
    asked = zip(configs(at, options), at.inputs["batches"].tolist(), at.inputs["device_bytes"].tolist(), ways, strict=True)
    figures = [at.submission.largest_micro_batch(config, tokens, room, **way) for config, (_, tokens), room, way in asked]
    return {"counted": column([number(figure, "largest_micro_batch") for figure in figures])}


def exact_fits(at: Any, *, options: list[dict[str, Any]], ways: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """largest_micro_batch on a device of exactly the bytes that the submission's own figures sum to, for the micro-batches given."""
    counted, rooms = [], []
    for config, (micro_batch, tokens), way in zip(configs(at, options), at.inputs["batches"].tolist(), ways, strict=True):
        states = at.submission.model_state_bytes(config, way["precision"], way.get("optimizer", "adam"))
        share = at.submission.sharded_state_bytes(states, dp=way.get("dp", 1), stage=way.get("stage", 0))
        width, recompute = 4 if way["precision"] == "fp32" else 2, way.get("recompute", "none")
        kept = at.submission.activation_bytes(config, micro_batch, tokens, dtype_bytes=width, recompute=recompute)
        room = math.ceil(share.total + kept)  # whole bytes, so that figures with fractions may be added in any order
        counted.append(number(at.submission.largest_micro_batch(config, tokens, room, **way), "largest_micro_batch"))
        rooms.append(room)
    return {"counted": column(counted), "device_bytes": column(rooms)}


def refusals(at: Any, *, function: str, options: list[dict[str, Any]], arguments: list[list[Any]]) -> None:
    """What the function does with arguments that don't exist: for each the exception's type and message, or "nothing" where it returned."""
    (config,) = configs(at, options)
    outcomes = []
    for given in arguments:
        try:
            if function == "model_state_bytes":
                at.submission.model_state_bytes(config, *given)
            else:
                stage, dp = given
                at.submission.sharded_state_bytes(at.submission.ModelStateBytes(8.0, 8.0, 16.0, 32.0), dp=dp, stage=stage)
            outcomes.append(["nothing", ""])
        except NotImplementedError:
            raise
        except Exception as raised:
            outcomes.append([type(raised).__name__, str(raised)])
    at.report(outcomes=outcomes)


# --- what is really held ---------------------------------------------------------------------------------------------
def states_alive(config: Any, precision: str, optimizer: str) -> dict[str, list[int]]:
    """Bytes alive at moments of one training step of a real model: weights, gradients, masters, the optimizer's tensors, activations."""
    wide = precision in ("fp32", "autocast")
    model = model_of(config, torch.float32 if wide else torch.bfloat16, "cpu")
    weights = list(model.parameters())
    has_masters = precision.startswith("mixed")
    masters = [weight.detach().clone().float() for weight in weights] if has_masters else []
    stepper = optimizer_over(optimizer, masters or weights)
    moments: list[torch.Tensor] = []
    gradients: list[torch.Tensor] = []

    def alive(activation_bytes: int = 0) -> list[int]:
        return [*map(memory_bytes, (weights, gradients, masters, moments)), activation_bytes]

    seen = {"before": alive()}
    tokens = torch.zeros(1, 4, dtype=torch.long)
    with saved(model) as kept, torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "autocast"):
        loss = model(tokens, tokens)
    seen["after forward"] = alive(memory_bytes(kept.values()))
    kept.clear()
    loss.backward()
    gradients += [weight.grad for weight in weights]
    if precision == "mixed_fp32_gradients":
        gradients[:] = [gradient.float() for gradient in gradients]
        for weight in weights:
            weight.grad = None
    seen["after backward"] = alive()
    for master, gradient in zip(masters, gradients, strict=False):
        master.grad = gradient.float()  # lives for the step only
    stepper.step()
    for master, weight in zip(masters, weights, strict=False):
        master.grad = None
        weight.data.copy_(master)

    # A step counter is one number for a whole tensor: no moment.
    moments += [value for state in stepper.state.values() for value in state.values() if torch.is_tensor(value) and value.dim()]
    return seen | {"after step": alive()}


def optimizer_over(name: str, weights: list[torch.Tensor]) -> torch.optim.Optimizer:
    """torch's own optimizer of that name."""
    if name == "adam":
        return torch.optim.AdamW(weights, lr=1e-3, foreach=False)
    return torch.optim.SGD(weights, lr=1e-3, momentum=0.9 if name == "momentum" else 0.0, foreach=False)


def activations_kept(config: Any, micro_batch: int, sequence: int, dtype: torch.dtype, recompute: str, device: str) -> int:
    """Bytes that autograd keeps between forward and backward: each memory once, without parameters and token numbers."""
    # "flash" is the student's own kernel of another assignment; torch's fused attention stands in for it.
    model = model_of(replace(config, attention="sdpa") if config.attention == "flash" else config, dtype, device)
    wrap(model, recompute)
    tokens = torch.zeros(micro_batch, sequence, dtype=torch.long, device=device)
    with saved(model) as kept:
        loss = model(tokens, tokens)
    held_bytes = memory_bytes(kept.values())
    del loss
    return held_bytes


@contextmanager
def saved(model: Any) -> Iterator[dict[int, torch.Tensor]]:
    """What autograd saves inside, by the memory behind it, without the model's parameters and token numbers."""
    parameters_behind = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        place = tensor.untyped_storage()._cdata
        if place not in parameters_behind and tensor.dtype != torch.int64:
            kept[place] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield kept


def wrap(model: Any, recompute: str) -> None:
    """Let torch's checkpoint recompute every layer's attention, or every block; its re-entrant form saves inputs where they are seen."""
    if recompute == "selective":
        for block in model.blocks:
            block.attention.attend = recomputed_attention(block.attention.attend)
    elif recompute == "full":
        for block in model.blocks:
            block.forward = recomputed_block(block.forward)


def recomputed_attention(attend: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """`attend`, recomputed in the backward pass."""

    def attend_again(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> torch.Tensor:
        return checkpoint(lambda q, k, v: attend(q, k, v, causal=causal), q, k, v, use_reentrant=True)

    return attend_again


def recomputed_block(forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A block's forward, recomputed in the backward pass."""
    return lambda x, angles=None: checkpoint(forward, x, angles, use_reentrant=True)


def memory_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the memories behind these tensors, each counted once."""
    behind = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(behind.values())


@contextmanager
def modules_built(names: list[str]) -> Iterator[None]:
    """Append the class of every module that is built inside, however it was imported."""
    build = torch.nn.Module.__init__

    def noted(module: torch.nn.Module, *given: Any, **named: Any) -> None:
        names.append(type(module).__name__)
        build(module, *given, **named)

    with patch.object(torch.nn.Module, "__init__", noted):
        yield


# --- shared ----------------------------------------------------------------------------------------------------------
def configs(at: Any, options: list[dict[str, Any]]) -> list[Any]:
    """The models' configs; one that is given alone stands for all rows."""
    from lm.gpt import GPTConfig

    rows = at.inputs["sizes"].tolist()
    repeated = options if len(options) == len(rows) else itertools.repeat(options[0], len(rows))
    return [GPTConfig(**dict(zip(SIZES, row, strict=True)), **rest) for row, rest in zip(rows, repeated, strict=True)]


def model_of(config: Any, dtype: torch.dtype, device: str) -> Any:
    """The given GPT, in one dtype."""
    from lm.gpt import GPT

    with torch.device(device):
        return GPT(config).to(dtype)


def state_row(states: Any) -> list[float]:
    """A ModelStateBytes as a row."""
    return [number(getattr(states, name), f"{name} of a ModelStateBytes") for name in STATES]


def number(value: Any, what: str) -> float:
    """`value`, if it is a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} is {type(value).__name__}; expected a number")
    return float(value)


def column(values: list[Any]) -> torch.Tensor:
    """Figures as float64, which holds every integer up to 2**53."""
    return torch.tensor(values, dtype=torch.float64)
