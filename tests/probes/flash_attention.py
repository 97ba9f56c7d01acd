"""What runs beside a submission to `flash_attention`: it drives the functions and reports what they did. No opinions, nothing expected."""

from __future__ import annotations

import contextlib
import gc
from typing import Any

import torch


def forward(at: Any, *, function: str, layout: str, num_watched: int = 0, **options: Any) -> dict[str, torch.Tensor]:
    """tiled_attention or flash_attention_forward: o, lse, and q, k, v as they were left.

    `num_watched` calls are made, with programs in another order each: what their kernels did is reported, and the first call's o and lse.
    """
    tensors = {name: laid_out(at.inputs[name], name, layout) for name in "qkv"}
    call = getattr(at.submission, function)
    check_bfloat16(at, function, tensors["q"])
    if not num_watched:
        return named(call(*tensors.values(), **without_none(options)), "o", "lse") | afterwards(tensors)
    answers, kernels = [], []
    for _ in range(num_watched):
        with at.watch_kernels(**tensors) as watch:
            answers.append(named(call(*tensors.values(), **without_none(options)), "o", "lse"))
        watch.name(**answers[-1])
        kernels.append(watch.facts())
    at.report(kernels=kernels)
    return answers[-1] | {f"{name}.first": tensor for name, tensor in answers[0].items()} | afterwards(tensors)


def backward(at: Any, *, function: str, layout: str, is_watched: bool = False, **options: Any) -> dict[str, torch.Tensor]:
    """tiled_attention_backward or flash_attention_backward: dq, dk, dv, and q, k, v, do as they were left."""
    tensors = {name: laid_out(at.inputs[name], name, layout) for name in ("do", "q", "k", "v", "o")} | {"lse": at.inputs["lse"]}
    call = getattr(at.submission, function)
    check_bfloat16(at, function, tensors["q"])
    with at.watch_kernels(**tensors) if is_watched else contextlib.nullcontext() as watch:
        gradients = named(call(*tensors.values(), **without_none(options)), "dq", "dk", "dv")
    if watch is not None:
        watch.name(**gradients)
        at.report(kernels=[watch.facts()])
    return gradients | afterwards({name: tensors[name] for name in ("q", "k", "v", "do")})


def autograd(at: Any, *, layout: str, options: dict[str, Any], is_sum: bool = False) -> dict[str, torch.Tensor]:
    """flash_attention and backward(): o and the gradients of q, k and v. `is_sum`: the incoming gradient is that of a plain sum.

    Reported: the bytes of all storages that live between the two passes and did not before, or that autograd saved.
    """
    leaves = {name: laid_out(at.inputs[name], name, layout).requires_grad_() for name in "qkv"}
    do = laid_out(at.inputs["do"], "do", layout)
    before = live_storages()
    saved: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        o = at.submission.flash_attention(*leaves.values(), **without_none(options))
    gc.collect()
    kept = {start: num_bytes for start, num_bytes in live_storages().items() if start not in before} | saved
    at.report(kept_bytes=sum(kept.values()), input_bytes=sum(leaf.untyped_storage().nbytes() for leaf in leaves.values()))
    loss = o.sum() if is_sum else (o * do).sum()
    loss.backward()
    return {"o": o} | {f"d{name}": gradient_of(leaf, name) for name, leaf in leaves.items()}


def compiled(at: Any, *, capability: int, head_dim: int, block: int | None, is_backward: bool) -> None:
    """What the kernels need on a chip of that compute capability; nothing is run."""
    q, k, v, o, do = (torch.zeros(1, 2, 128, head_dim, dtype=torch.float16) for _ in range(5))
    options = without_none({"causal": True, "block_q": block, "block_k": block})
    with at.compile_kernels(capability) as kernels:
        if is_backward:
            at.submission.flash_attention_backward(do, q, k, v, o, torch.zeros(1, 2, 128), **options)
        else:
            at.submission.flash_attention_forward(q, k, v, **options)
    at.report(kernels=kernels)


def traffic(at: Any) -> dict[str, torch.Tensor]:
    """forward_traffic_bytes for each row of the input: batch, heads, queries, keys, head dim, itemsize, block_q, block_k, causal."""
    counted = []
    for row in at.inputs["rows"].tolist():
        *shape, block_q, block_k, causal = row
        num_bytes = at.submission.forward_traffic_bytes(*shape, block_q=block_q, block_k=block_k, causal=bool(causal))
        if num_bytes != int(num_bytes):
            raise TypeError(f"forward_traffic_bytes returned {num_bytes!r}; expected a whole number of bytes")
        counted.append(int(num_bytes))
    return {"num_bytes": torch.tensor(counted, dtype=torch.int64)}


# --- shared ----------------------------------------------------------------------------------------------------------
def laid_out(x: torch.Tensor, name: str, layout: str) -> torch.Tensor:
    """`x` as a view of memory that lies in another order; what is in that memory beside `x` is NaN."""
    if layout == "mixed":  # no two tensors of a kind have the same strides
        layout = "plain" if name in ("k", "o") else "tokens_first"
    if layout == "tokens_first":  # (B, T, H, D) in memory, as a projection leaves it
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    if layout == "sliced":  # odd strides, an odd start, and neighbours on all sides
        batch, heads, tokens, head_dim = x.shape
        memory = torch.full((batch, heads + 1, tokens + 3, head_dim + 5), torch.nan, dtype=x.dtype, device=x.device)
        view = memory[:, 1:, 2 : 2 + tokens, 3 : 3 + head_dim]
        return view.copy_(x)
    if layout == "broadcast" and name in ("k", "v"):
        return x[:1].clone().expand_as(x)
    if layout == "broadcast" and name == "do":
        return x.flatten()[0].clone().expand_as(x)
    return x


def without_none(options: dict[str, Any]) -> dict[str, Any]:
    """What is None is left out, so that defaults are tried as well."""
    return {name: value for name, value in options.items() if value is not None}


def check_bfloat16(at: Any, function: str, like: torch.Tensor) -> None:
    """Report which bfloat16 operations the interpreter gets wrong, where they matter."""
    if like.dtype == torch.bfloat16 and function.startswith("flash"):
        at.report(broken_bfloat16=at.broken_bfloat16())


def named(returned: Any, *names: str) -> dict[str, torch.Tensor]:
    """What a function returned, if it is a tuple of that many tensors."""
    if not isinstance(returned, tuple | list) or len(returned) != len(names) or not all(isinstance(x, torch.Tensor) for x in returned):
        raise TypeError(f"the function returned {type(returned).__name__}; expected a tuple of {len(names)} tensors: {', '.join(names)}")
    return dict(zip(names, returned, strict=True))


def afterwards(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The inputs as the call left them."""
    return {f"{name}.after": tensor for name, tensor in tensors.items()}


def live_storages() -> dict[int, int]:
    """Start and bytes of every storage that a Python object holds."""
    tensors = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]
    real = [tensor.untyped_storage() for tensor in tensors if tensor.device.type in ("cpu", "cuda")]
    return {storage.data_ptr(): storage.nbytes() for storage in real}


def gradient_of(leaf: torch.Tensor, name: str) -> torch.Tensor:
    """The leaf's gradient; TypeError if none arrived."""
    if leaf.grad is None:
        raise TypeError(f"{name}.grad is None after backward(): no gradient arrived")
    return leaf.grad
