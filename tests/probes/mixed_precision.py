"""What runs beside a submission to `mixed_precision`: it drives functions and classes and reports what came of it. No expected values."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode


# --- formats ---------------------------------------------------------------------------------------------------------
def rounded(at: Any, *, exponent_bits: int, mantissa_bits: int) -> dict[str, Tensor]:
    """round_to of "x", and x as it is afterwards."""
    y = at.submission.round_to(at.inputs["x"], exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)
    return {"y": y.clone(), "x": at.inputs["x"]}


def rounded_forms(at: Any) -> None:
    """Tensors of unusual forms, rounded to the format that they have already: what isn't the same numbers in new memory, and how."""
    x = at.inputs["x"]
    forms = {"a single number": x[0], "no numbers": x[:0], "a transposed matrix": x[:12].view(3, 4).T, "float32 numbers": x.float(), "x": x}
    wrong = {}
    for name, form in forms.items():
        exponent_bits, mantissa_bits = (8, 23) if form.dtype == torch.float32 else (11, 52)
        y = at.submission.round_to(form, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)
        if y.shape != form.shape or y.dtype != form.dtype:
            wrong[name] = f"comes back as {tuple(y.shape)} in {y.dtype}"
        elif not torch.equal(y, form):
            wrong[name] = "is changed, though the format has all its numbers"
        elif y.numel() and y.untyped_storage().data_ptr() == form.untyped_storage().data_ptr():
            wrong[name] = "comes back in x's own memory"
    at.report(wrong=wrong)


# --- casting ---------------------------------------------------------------------------------------------------------
OPERATIONS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    # narrow: a and b are 4 x 4, v has 4 numbers
    "linear": lambda a, b, v: F.linear(a, b, v),
    "matmul": lambda a, b, v: torch.matmul(a, b),
    "at_sign": lambda a, b, v: a @ b,
    "mm": lambda a, b, v: a.mm(b),
    "bmm": lambda a, b, v: torch.bmm(a[None], b[None]),
    "mv": lambda a, b, v: torch.mv(a, v),
    "addmm": lambda a, b, v: torch.addmm(v, a, b),
    "baddbmm": lambda a, b, v: torch.baddbmm(v, a[None], b[None]),
    "einsum": lambda a, b, v: torch.einsum("ij,jk->ik", a, b),
    "einsum_of_a_list": lambda a, b, v: torch.einsum("ij,jk->ik", [a, b]),
    "conv1d": lambda a, b, v: F.conv1d(a[None], b[:, :, None]),
    "conv2d": lambda a, b, v: F.conv2d(a[None, None], b[None, None, :2, :2]),
    "conv3d": lambda a, b, v: F.conv3d(a[None, None, None], b[None, None, None, :2, :2]),
    "product_of_no_rows": lambda a, b, v: a[:0] @ b,
    "scaled_dot_product_attention": lambda a, b, v: F.scaled_dot_product_attention(a[None, None], b[None, None], value=b[None, None]),
    # wide
    "softmax": lambda a, b, v: F.softmax(a, dim=-1),
    "softmax_method": lambda a, b, v: a.softmax(-1),
    "log_softmax": lambda a, b, v: F.log_softmax(a, dim=-1),
    "logsumexp": lambda a, b, v: torch.logsumexp(a, 0),
    "exp": lambda a, b, v: a.exp(),
    "exp_of_a_number": lambda a, b, v: v[0].exp(),
    "log": lambda a, b, v: torch.log(a.abs()),
    "pow": lambda a, b, v: a.pow(3),
    "power_sign": lambda a, b, v: a**2,
    "power_of_a_number": lambda a, b, v: 2.0**a,
    "rsqrt": lambda a, b, v: a.abs().rsqrt(),
    "sum": lambda a, b, v: a.sum(),
    "sum_of_nothing": lambda a, b, v: a[:0].sum(),
    "mean": lambda a, b, v: a.mean(),
    "prod": lambda a, b, v: v.prod(),
    "cumsum": lambda a, b, v: a.cumsum(0),
    "var": lambda a, b, v: a.var(),
    "std": lambda a, b, v: a.std(),
    "norm": lambda a, b, v: torch.norm(a),
    "layer_norm": lambda a, b, v: F.layer_norm(a, (4,), weight=v),
    "rms_norm": lambda a, b, v: F.rms_norm(a, (4,), weight=v),
    "group_norm": lambda a, b, v: F.group_norm(a, 2, weight=v),
    "cross_entropy": lambda a, b, v: F.cross_entropy(a, torch.tensor([0, 1, 2, 3])),
    "nll_loss": lambda a, b, v: F.nll_loss(a, torch.tensor([0, 1, 2, 3])),
    "mse_loss": lambda a, b, v: F.mse_loss(a, b),
    "binary_cross_entropy_with_logits": lambda a, b, v: F.binary_cross_entropy_with_logits(a, b.sigmoid()),
    # as given
    "gelu": lambda a, b, v: F.gelu(a),
    "relu": lambda a, b, v: torch.relu(a),
    "tanh": lambda a, b, v: a.tanh(),
    "add": lambda a, b, v: a + b,
    "mul": lambda a, b, v: a * v,
    "cat": lambda a, b, v: torch.cat([a, b]),
    "transpose": lambda a, b, v: a.mT,
    "dropout": lambda a, b, v: F.dropout(a, 0.0),
    "maximum": lambda a, b, v: torch.maximum(a, b),
}


def operations(at: Any, *, names: list[str], given: str, policy: str) -> dict[str, Tensor]:
    """Each operation on a, b and v in the dtype `given`, under the policy: its output as float64, and as facts its dtype and shape."""
    tensors = [at.inputs[name].to(getattr(torch, given)) for name in ("a", "b", "v")]
    cast, dtypes, values = at.submission.CastPolicy(getattr(torch, policy)), {}, []
    for name in names:
        with cast:
            y = OPERATIONS[name](*tensors)
        dtypes[name] = str(y.dtype).removeprefix("torch.")
        values.append(y.double().flatten())
    at.report(dtypes=dtypes, sizes=[len(value) for value in values])
    # Rows of one length, so that shapes are known beforehand: what is left is zero, what is too long is told by the sizes.
    return {"values": torch.stack([F.pad(value[:32], (0, 32 - min(32, len(value)))) for value in values])}


def untouched(at: Any, *, policy: str) -> None:
    """Calls whose arguments are no castable tensors: the dtypes that come out, or what was raised."""
    dtypes, seen = {}, torch.ones(4, 4, dtype=torch.bool)
    calls: dict[str, Callable[[], Tensor]] = {
        "float64 product": lambda: at.inputs["d"] @ at.inputs["d"],
        "float64 softmax": lambda: at.inputs["d"].softmax(-1),
        "integer sum": lambda: at.inputs["i"].sum(),
        "integer cumsum": lambda: at.inputs["i"].cumsum(0),
        "embedding": lambda: F.embedding(at.inputs["i"], at.inputs["f"]),
        "masked attention": lambda: F.scaled_dot_product_attention(*[at.inputs["f"][None, None]] * 3, attn_mask=seen),
        "numbers": lambda: torch.full((2,), 3.0),
    }  # fmt: skip
    for name, call in calls.items():
        try:
            with at.submission.CastPolicy(getattr(torch, policy)):
                dtypes[name] = str(call().dtype).removeprefix("torch.")
        except NotImplementedError:
            raise
        except Exception as raised:
            dtypes[name] = f"{type(raised).__name__}: {str(raised)[:100]}"
    at.report(dtypes=dtypes)


def product_gradients(at: Any, *, policy: str, evaluates_first: bool) -> dict[str, Tensor]:
    """x w under the policy and outside backward, with float32 x and w: the gradients as they come. Before it perhaps one without graph."""
    x, w = (at.inputs[name].requires_grad_() for name in ("x", "w"))
    with at.submission.CastPolicy(getattr(torch, policy)):
        if evaluates_first:
            with torch.no_grad():
                F.linear(x, w)
        y = F.linear(x, w)
    y.backward(at.inputs["dy"].to(y.dtype))
    return {"dx": gradient(x, "x"), "dw": gradient(w, "w")}


# --- a GPT, plainly and through the submission -----------------------------------------------------------------------
def small_gpt(at: Any, dtype: torch.dtype = torch.float32) -> Any:
    """The given GPT, two layers; equal weights whenever it is made."""
    from lm.gpt import GPT, GPTConfig

    torch.manual_seed(at.seed % 2**31)
    config = GPTConfig(
        vocab_size=31, max_tokens=12, num_layers=2, hidden_size=32, num_heads=4, num_kv_heads=2, mlp_size=48, attention="dense"
    )
    return GPT(config).to(dtype)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean over all targets."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def logits(at: Any, *, policy: str) -> dict[str, Tensor]:
    """A GPT's logits: under the submission's policy, under torch's autocast, and in float64."""
    dtype, tokens = getattr(torch, policy), at.inputs["tokens"]
    answer = {"exact": small_gpt(at).double()(tokens)}
    with torch.autocast(at.device.type, dtype=dtype):
        answer["plain"] = small_gpt(at)(tokens).double()
    cast = at.submission.CastPolicy(dtype)
    for _ in range(2):  # the same policy serves many steps
        with cast:
            answer["ours"] = small_gpt(at)(tokens).double()
    return answer


class NoBfloat16(TorchDispatchMode):
    """A device without bf16: an operation that gives or takes one raises. It also notes whether autocast is or was on."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device
        self.autocasts = False
        self.num_operations = 0

    def __enter__(self) -> Any:
        # What autocast casts reaches us with autocast off again, so the switch is watched too.
        self.switch = torch.set_autocast_enabled
        torch.set_autocast_enabled = self.note_switch
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        torch.set_autocast_enabled = self.switch
        super().__exit__(*raised)

    def note_switch(self, *setting: Any) -> None:
        """torch.set_autocast_enabled, with a note if it is on from now."""
        self.autocasts |= setting[-1] is True
        self.switch(*setting)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.num_operations += 1
        self.autocasts |= torch.is_autocast_enabled(self.device.type)
        outputs = func(*args, **(kwargs or {}))
        for value in [*args, *(outputs if isinstance(outputs, (tuple, list)) else (outputs,))]:
            if isinstance(value, Tensor) and value.dtype == torch.bfloat16:
                raise RuntimeError(f"{func} is given or gives a bfloat16 tensor, on a device that has no bfloat16")
        return outputs


def without_bf16(at: Any, *, steps: bool) -> None:
    """Every operation and a GPT's forward under a float16 policy, or three whole steps, where bfloat16 doesn't exist."""
    tokens, targets = at.inputs["tokens"], at.inputs["targets"]
    device = NoBfloat16(at.device)
    with device:
        policy = at.submission.CastPolicy(torch.float16)
        if steps:
            model = small_gpt(at, torch.float16)
            optimizer = at.submission.MasterWeights(lambda groups: torch.optim.AdamW(groups, lr=1e-3), model.parameters())
            scaler = at.submission.DynamicLossScaler(init_scale=1024.0)
            for _ in range(3):
                report = at.submission.train_step(
                    model, optimizer, tokens, targets, cross_entropy, policy=policy, scaler=scaler, max_norm=1.0
                )
                at.report(stepped=bool(report.stepped), loss=float(report.loss))
        else:
            with policy:
                for given in (torch.float32, torch.float16):
                    for operation in OPERATIONS.values():
                        operation(*(at.inputs[name].to(given) for name in ("a", "b", "v")))
                at.report(loss=float(cross_entropy(small_gpt(at)(tokens), targets)))
    at.report(autocasts=device.autocasts, num_operations=device.num_operations)


# --- masters ---------------------------------------------------------------------------------------------------------
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
    import gc

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


# --- scaler ----------------------------------------------------------------------------------------------------------
class Stepper:
    """An optimizer that counts its steps: w -= g."""

    def __init__(self, *tensors: Tensor) -> None:
        self.param_groups = [{"params": [tensor], "lr": 1.0} for tensor in tensors]
        self.num_steps = 0
        self.gradients: list[Tensor] = []

    def step(self) -> None:
        self.num_steps += 1
        learning = [group["params"][0] for group in self.param_groups if group["params"][0].grad is not None]
        self.gradients = [tensor.grad.detach().clone() for tensor in learning]
        for tensor in learning:
            tensor.data.sub_(tensor.grad)


def scaled(at: Any, *, scale: float) -> dict[str, Tensor]:
    """scale(loss) of a loss that is a sum over x², and the gradient that its backward leaves."""
    x = at.inputs["x"].requires_grad_()
    loss = at.submission.DynamicLossScaler(init_scale=scale).scale((x**2).sum())
    loss.backward()
    return {"loss": loss.detach().double(), "dx": gradient(x, "x").double()}


def unscaled(at: Any, *, scale: float, how: str) -> dict[str, Tensor]:
    """The gradients that the optimizer steps with: unscaled by step alone, or by unscale_ before.

    "twice" is what a second unscale_ does, and "after" what one after step does.
    """
    x, y = (nn.Parameter(at.inputs[name]) for name in ("x", "y"))
    idle = nn.Parameter(torch.zeros(3))  # which the loss doesn't depend on
    scaler, optimizer = at.submission.DynamicLossScaler(init_scale=scale), Stepper(x, idle, y)
    seen = []
    for _ in range(2):
        x.grad = y.grad = None
        scaler.scale((x * at.inputs["g"]).sum() + (y * at.inputs["g"]).sum()).backward()
        if how in ("unscale", "twice"):
            before = x.grad
            scaler.unscale_(optimizer)
            at.report(in_place=x.grad is before)
        if how == "twice":
            at.report(second=raised_by(scaler.unscale_, optimizer))
        scaler.step(optimizer)
        if how == "after":
            at.report(second=raised_by(scaler.unscale_, optimizer))
        scaler.update()
        seen.append(torch.stack(optimizer.gradients).double())
    at.report(num_steps=optimizer.num_steps, scale_is=type(scaler.get_scale()).__name__)
    return {"gradients": torch.stack(seen)}


def raised_by(call: Callable[..., Any], *args: Any) -> str:
    """The class of what call(*args) raises, or "nothing"."""
    try:
        call(*args)
    except Exception as raised:
        return type(raised).__name__
    return "nothing"


def overflown(at: Any, *, where: int, what: str, masters: bool, unscale_first: bool) -> dict[str, Tensor]:
    """A good step, one with a non-finite gradient in parameter `where`, and what was before and after it, as bits."""
    dtype = torch.float16 if masters else torch.float32
    weights = [nn.Parameter(row.to(dtype)) for row in at.inputs["w"]]
    optimizer = at.submission.MasterWeights(OPTIMIZERS["adamw"], weights) if masters else OPTIMIZERS["adamw"]([{"params": weights}])
    scaler = at.submission.DynamicLossScaler(init_scale=8.0)

    def one_step(bad: bool) -> bool:
        for index, (weight, row) in enumerate(zip(weights, at.inputs["g"], strict=True)):
            weight.grad = (row * 8).to(dtype)
            if bad and index == where and what == "huge":
                weight.grad.fill_(3e38)  # finite, each of them
            elif bad and index == where:
                weight.grad[-1] = float(what)
        if unscale_first:
            scaler.unscale_(optimizer)
        stepped = scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return bool(stepped)

    first = one_step(bad=False)
    before = bits(optimizer, weights)
    second = one_step(bad=True)
    after = bits(optimizer, weights)
    third = one_step(bad=False)
    at.report(stepped=[first, second, third], scale=float(scaler.get_scale()))
    return {"before": before, "after": after, "last": bits(optimizer, weights)}


def bits(optimizer: Any, weights: list[nn.Parameter]) -> Tensor:
    """Weights, masters and every number of the optimizer's state, in a row."""
    inner = optimizer.state_dict()
    numbers = [weight.detach().double().flatten() for weight in weights]
    state = {name: value for name, value in inner.items() if name != "param_groups"}
    numbers += [tensor.detach().double().flatten() for tensor in tensors_in(state)]
    for group in optimizer.param_groups:
        numbers += [parameter.detach().double().flatten() for parameter in group["params"]]
    row = torch.cat([each.cpu() for each in numbers])  # Adam counts its steps on the host
    return F.pad(row, (0, 400 - len(row)))  # one length, whatever a submission's state dict holds beside


def trajectory(at: Any, *, settings: dict[str, Any], resume_at: int, calls_unscale: bool) -> dict[str, Tensor]:
    """The scale after each update, for the overflows in "pattern" (1: a gradient is infinite); saved and reloaded before step resume_at."""
    make = at.submission.DynamicLossScaler
    scaler, weight = make(**settings), nn.Parameter(torch.zeros(3))
    optimizer, scales, stepped = Stepper(weight), [float(scaler.get_scale())], []
    for index, bad in enumerate(at.inputs["pattern"].tolist()):
        if index == resume_at:
            state, file = scaler.state_dict(), io.BytesIO()
            weight.grad = torch.full((3,), float("inf"))
            scaler.step(optimizer)
            scaler.update()  # what was saved must not change with this
            torch.save(state, file)
            file.seek(0)
            scaler = make(init_scale=3.0, growth_factor=5.0, backoff_factor=0.1, growth_interval=1)
            scaler.load_state_dict(torch.load(file, weights_only=False))
        weight.grad = torch.tensor([0.0, float("inf") if bad else 1.0, 0.0])
        if calls_unscale:
            scaler.unscale_(optimizer)
        stepped.append(bool(scaler.step(optimizer)))
        scaler.update()
        scales.append(float(scaler.get_scale()))
    at.report(stepped=stepped)
    return {"scales": torch.tensor(scales, dtype=torch.float64)}


def tiny_gradients(at: Any, *, scale: float) -> dict[str, Tensor]:
    """fp16 parameters with masters, and gradients below fp16's smallest number: what the optimizer is given."""
    weight = nn.Parameter(at.inputs["w"].half())
    given: list[Tensor] = []

    class Recorder(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            given.append(self.param_groups[0]["params"][0].grad.detach().double())

    optimizer = at.submission.MasterWeights(lambda groups: Recorder(groups, lr=1.0), [weight])
    scaler = at.submission.DynamicLossScaler(init_scale=scale)
    # Products in float32, so that it is the gradient of the fp16 weight that has to hold the small numbers.
    scaler.scale((weight.float() * at.inputs["g"]).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return {"given": given[0]}


# --- step ------------------------------------------------------------------------------------------------------------
def squared(predicted: Tensor, wanted: Tensor) -> Tensor:
    """The sum of squared errors."""
    return ((predicted - wanted) ** 2).sum()


class GradientsSeen(torch.optim.SGD):
    """SGD that keeps what gradients it was given."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, lr=lr)
        self.given: list[Tensor] = []

    def step(self, closure: Any = None) -> None:
        self.given = [p.grad.detach().double().clone() for group in self.param_groups for p in group["params"]]
        super().step()


def clipped(at: Any, *, max_norm: float | None, scale: float | None, masters: bool) -> dict[str, Tensor]:
    """One step of a linear model in float32 or with bf16 masters: the gradient that the optimizer was given, the report.

    max_norm: None leaves it out.
    """
    dtype = torch.bfloat16 if masters else torch.float32
    # Two groups, one of a vector: the norm is that of all parameters.
    upper, lower = (nn.Parameter(part) for part in (at.inputs["w"][:3].to(dtype), at.inputs["w"][3:].to(dtype).flatten()))
    groups = [{"params": [upper]}, {"params": [lower]}]
    made: list[GradientsSeen] = []

    def make(groups: Any) -> GradientsSeen:
        made.append(GradientsSeen(groups, lr=0.1))
        return made[0]

    optimizer = at.submission.MasterWeights(make, groups) if masters else make(groups)
    scaler = None if scale is None else at.submission.DynamicLossScaler(init_scale=scale)

    def predict(x: Tensor) -> Tensor:
        return x @ torch.cat([upper, lower.view(2, 3)]).float()

    clipping = {} if max_norm is None else {"max_norm": max_norm}
    report = at.submission.train_step(predict, optimizer, at.inputs["x"], at.inputs["y"], squared, scaler=scaler, **clipping)
    at.report(stepped=bool(report.stepped), gradient_left=any(weight.grad is not None for weight in (upper, lower)))
    at.report(figures_are=[type(figure).__name__ for figure in (report.loss, report.gradient_norm)])
    figures = torch.tensor([report.loss, report.gradient_norm], dtype=torch.float64)
    whole = [torch.cat([each.flatten() for each in parts]).view(5, 3) for parts in (made[0].given, (upper, lower))]
    return {"given": whole[0], "figures": figures, "w": whole[1].detach().double()}


def step_gradients(at: Any, *, policy: str, scale: float | None) -> dict[str, Tensor]:
    """The gradients of one step of a GPT: through the submission, with torch's autocast, and in float64; flat."""
    dtype, tokens, targets = getattr(torch, policy), at.inputs["tokens"], at.inputs["targets"]
    model = small_gpt(at)
    made: list[str] = []
    model.head.register_forward_hook(lambda _module, _inputs, logits: made.append(str(logits.dtype).removeprefix("torch.")))
    optimizer = GradientsSeen(model.parameters(), lr=0.1)
    scaler = None if scale is None else at.submission.DynamicLossScaler(init_scale=scale)
    products: list[str] = []

    def watched(logits: Tensor, targets: Tensor) -> Tensor:
        products.append(str((at.inputs["one"] @ at.inputs["one"]).dtype).removeprefix("torch."))
        return cross_entropy(logits, targets)

    at.submission.train_step(model, optimizer, tokens, targets, watched, policy=at.submission.CastPolicy(dtype), scaler=scaler)
    answer = {"ours": torch.cat([each.flatten() for each in optimizer.given])}
    autocast = torch.autocast(at.device.type, dtype=dtype)
    for name, kind, surroundings in (("plain", torch.float32, autocast), ("exact", torch.float64, nullcontext())):
        answer[name] = plain_gradients(small_gpt(at, torch.float32).to(kind), tokens, targets, surroundings, scale or 1.0)
    at.report(sizes=[p.numel() for p in model.parameters()], logits=made, products=products)
    return answer


def plain_gradients(model: Any, tokens: Tensor, targets: Tensor, surroundings: AbstractContextManager[Any], scale: float) -> Tensor:
    """The gradients of a GPT's loss, flat, computed without the submission."""
    with surroundings:
        loss = cross_entropy(model(tokens), targets)
    (loss * scale).backward()
    return torch.cat([p.grad.double().flatten() / scale for p in model.parameters()])


def curves(at: Any, *, way: str, num_steps: int, learning_rate: float) -> dict[str, Tensor]:
    """A GPT's losses over some steps of SGD: in float32 without the submission, and by its train_step."""
    losses: dict[str, list[float]] = {"plain": [], "ours": []}
    model = small_gpt(at)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=learning_rate)
    for tokens, targets in zip(at.inputs["tokens"], at.inputs["targets"], strict=True):
        loss = cross_entropy(model(tokens), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses["plain"].append(float(loss.detach()))
    make = at.submission
    dtype = torch.float16 if "fp16" in way else torch.bfloat16
    scaler = make.DynamicLossScaler(init_scale=1024.0) if "fp16" in way else None
    model = small_gpt(at, dtype if "masters" in way else torch.float32)
    groups = [{"params": list(model.parameters())}]
    sgd: Callable[[Any], torch.optim.Optimizer] = lambda given: torch.optim.SGD(given, lr=learning_rate)  # noqa: E731
    optimizer = make.MasterWeights(sgd, groups) if "masters" in way else sgd(groups)
    policy = make.CastPolicy(dtype)
    for tokens, targets in zip(at.inputs["tokens"][:num_steps], at.inputs["targets"][:num_steps], strict=True):
        report = make.train_step(model, optimizer, tokens, targets, cross_entropy, policy=policy, scaler=scaler)
        losses["ours"].append(float(report.loss))
    return {name: torch.tensor(each, dtype=torch.float64) for name, each in losses.items()}


def step_that_diverges(at: Any) -> None:
    """A step of a linear model whose loss is infinite, without a scaler: the report, and whether the weights are finite after it."""
    weight = nn.Parameter(at.inputs["w"])
    optimizer = torch.optim.SGD([weight], lr=0.01)
    report = at.submission.train_step(lambda x: x @ weight * float("inf"), optimizer, at.inputs["x"], at.inputs["y"], squared)
    at.report(stepped=bool(report.stepped), is_finite=bool(weight.isfinite().all()))


def overflowing_step(at: Any) -> dict[str, Tensor]:
    """Three steps of a linear model, the second with a loss whose gradient overflows: reports, weights and scales after each."""
    weight = nn.Parameter(at.inputs["w"])
    optimizer, scaler = torch.optim.SGD([weight], lr=0.01), at.submission.DynamicLossScaler(init_scale=64.0)
    weights, stepped, scales = [weight.detach().clone().double()], [], []
    for factor in (1.0, float("inf"), 1.0):
        report = at.submission.train_step(
            lambda x, factor=factor: x @ weight * factor, optimizer, at.inputs["x"], at.inputs["y"], squared, scaler=scaler
        )
        weights.append(weight.detach().clone().double())
        stepped.append(bool(report.stepped))
        scales.append(float(scaler.get_scale()))
    at.report(stepped=stepped, gradient_left=weight.grad is not None)
    return {"weights": torch.stack(weights), "scales": torch.tensor(scales, dtype=torch.float64)}


def gradient(leaf: Tensor, what: str) -> Tensor:
    """The leaf's gradient, if it has one."""
    if leaf.grad is None:
        raise RuntimeError(f"backward left no gradient on {what}")
    return leaf.grad
