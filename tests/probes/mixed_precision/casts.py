"""Operations, gradients and a GPT under the casting policy, also where bfloat16 doesn't exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from .surroundings import cross_entropy, gradient, small_gpt

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
