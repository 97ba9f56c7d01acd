"""What runs beside a submission to `context_parallel`: it drives the functions and reports what they did. No opinions, no expected values.

The kernel that is handed in is the probe's own. Every call of it is marked in the trace.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from lm.gpt import GPT, GPTConfig

M_MMAP_THRESHOLD = -3  # malloc.h
HIDDEN_FROM = 100.0  # keys whose first number is larger are hidden by a kernel that hides


def group_of(at: Any, groups: list[list[int]] | None) -> tuple[Any, bool]:
    """This rank's group (None: all ranks), and whether it has one; all ranks make all of them."""
    if groups is None:
        return None, True
    made = {rank: group for members in groups for group in [dist.new_group(members)] for rank in members}
    return made.get(at.rank), at.rank in made


def laid_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """The same numbers in memory of their own: as they lie, with tokens outside of heads as a projection has them, or heads innermost."""
    if layout == "heads innermost":
        return x.contiguous(memory_format=torch.channels_last)
    return x.transpose(1, 2).contiguous().transpose(1, 2) if layout == "transposed" else x.clone()


def turned(x: torch.Tensor) -> torch.Tensor:
    """The same numbers in memory of their own, with the first dim innermost."""
    return x.permute(*reversed(range(x.ndim))).contiguous().permute(*reversed(range(x.ndim)))


# --- the kernel ------------------------------------------------------------------------------------------------------
def wide(x: torch.Tensor) -> torch.Tensor:
    """x in float32, or float64 for float64."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def for_queries(x: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Each key/value head once for every query head that uses it."""
    return x if x.shape[1] == num_heads else x.repeat_interleave(num_heads // x.shape[1], dim=1)


class Attention:
    """A kernel. hides: keys with a large first number are seen by nobody. rounds: what it returns has the inputs' dtype.

    before, after_forward, after_backward: what else happens at a call, and to what it returns.
    """

    def __init__(self, at: Any, *, hides: bool = False, rounds: bool = False) -> None:
        self.at, self.hides, self.rounds, self.num_calls = at, hides, rounds, 0

    def mark(self, what: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> None:
        """Say what was called, with how many queries and keys."""
        dtypes = sorted({str(x.dtype).removeprefix("torch.") for x in (q, k, v)})
        heads = [len(q), q.shape[1], k.shape[1]]
        self.num_calls += 1
        self.at.mark("kernel", call=what, queries=q.shape[2], keys=k.shape[2], causal=bool(causal), dtypes=dtypes, heads=heads)

    def scores(self, q: torch.Tensor, k: torch.Tensor, causal: bool) -> torch.Tensor:
        """Scaled, -inf where a query doesn't see a key."""
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if causal:
            if scores.shape[-2] != scores.shape[-1]:
                raise ValueError(f"the kernel's causal mask needs as many queries as keys, not {scores.shape[-2]} and {scores.shape[-1]}")
            scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril(), -math.inf)
        return scores.masked_fill((k[..., 0] > HIDDEN_FROM)[..., None, :], -math.inf) if self.hides else scores

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, /) -> tuple[torch.Tensor, torch.Tensor]:
        self.mark("forward", q, k, v, causal)
        dtype = q.dtype
        q, k, v = wide(q), for_queries(wide(k), q.shape[1]), for_queries(wide(v), q.shape[1])
        scores = self.scores(q, k, causal)
        o = scores.softmax(-1) @ v  # NaN in rows that see nothing
        return o.to(dtype) if self.rounds else o, scores.logsumexp(-1)

    def backward(
        self, gradient: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, causal: bool, /
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        self.mark("backward", q, k, v, causal)
        dtype, num_kv_heads = q.dtype, k.shape[1]
        gradient, q, o = wide(gradient), wide(q), wide(o)
        k, v = for_queries(wide(k), q.shape[1]), for_queries(wide(v), q.shape[1])
        scores = self.scores(q, k, causal)
        p = torch.where(scores == -math.inf, 0.0, (scores - lse[..., None]).exp())
        ds = p * (gradient @ v.mT - (gradient * o).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
        dk, dv = (x if x.shape[1] == num_kv_heads else x.unflatten(1, (num_kv_heads, -1)).sum(2) for x in (ds.mT @ q, p.mT @ gradient))
        made = (ds @ k, dk, dv)
        return tuple(x.to(dtype) for x in made) if self.rounds else made  # type: ignore[return-value]


class Gated(Attention):
    """A kernel that goes on, in one of its passes, only with the judge's numbers; and has them in what it returns.

    The first number of each key says whose it is: there is a gate for each block, but for the last.
    """

    def __init__(self, at: Any, direction: str) -> None:
        super().__init__(at)
        self.direction, self.secrets = direction, {}

    def secret(self, k: torch.Tensor) -> torch.Tensor | float:
        """That of the block to which these keys belong, once it has been handed out."""
        source = int(k[0, 0, 0, 0])
        if source not in self.secrets:
            step = len(self.secrets)
            is_last = step == self.at.world_size - 1
            self.at.mark("block", source=source, step=step)
            self.secrets[source] = 0.0 if is_last else self.at.gate(f"kernel, step {step}", self.at.inputs["signal"])
        return self.secrets[source]

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, /) -> tuple[torch.Tensor, torch.Tensor]:
        secret = self.secret(k) if self.direction == "forward" else 0.0
        o, lse = super().forward(q, k, v, causal)
        return o + secret, lse

    def backward(self, gradient: torch.Tensor, q: torch.Tensor, k: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, ...]:  # type: ignore[override]
        secret = self.secret(k) if self.direction == "backward" else 0.0
        dq, dk, dv = super().backward(gradient, q, k, *rest)
        # A block may be computed in pieces: each call adds its keys' share.
        return dq + secret * (k.shape[2] / self.at.inputs["k"].shape[2]), dk, dv


class Counting(Attention):
    """A kernel whose shares of gradients are 256 of the rank's own block and 1 of any other, in the inputs' dtype.

    The first number of each key says whose it is. A block may be computed in pieces, whose shares add up.
    """

    def backward(self, gradient: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: Any) -> tuple[torch.Tensor, ...]:  # type: ignore[override]
        share = (256.0 if int(k[0, 0, 0, 0]) == self.at.rank else 1.0) / self.at.inputs["k"].shape[2]
        return torch.full_like(q, share * k.shape[2]), torch.full_like(k, share * q.shape[2]), torch.full_like(v, share * q.shape[2])


def kernel_of(at: Any, attention: Attention) -> Any:
    """The submission's own record of it."""
    return at.submission.Kernel(attention.forward, attention.backward)


# --- merging ---------------------------------------------------------------------------------------------------------
def merge(at: Any, *, names: list[str]) -> dict[str, torch.Tensor]:
    """merge_attention of each case's inputs <name>/o_a, lse_a, o_b, lse_b; and what these are afterwards."""
    answer = {}
    for name in names:
        given = {part: at.inputs[f"{name}/{part}"].clone() for part in ("o_a", "lse_a", "o_b", "lse_b")}
        answer[f"{name}/o"], answer[f"{name}/lse"] = at.submission.merge_attention(*given.values())
        answer |= {f"{name}/{part} after": value for part, value in given.items()}
    return answer


# --- attention -------------------------------------------------------------------------------------------------------
def attention(
    at: Any, *, function: str, masks: list[bool], zigzag: bool = False, groups: list[list[int]] | None = None, layout: str = "plain",
    hides: bool = False, rounds: bool = False, nested: bool = False,
) -> dict[str, torch.Tensor]:  # fmt: skip
    """Forward and backward of a call for each of `masks` (causal or not) with inputs q0, k0, v0, gradient0, q1, …

    nested: all forwards before the first backward.
    """
    group, takes_part = group_of(at, groups)
    words = {"zigzag": True} if zigzag else {}
    call = getattr(at.submission, function)
    kernel = kernel_of(at, Attention(at, hides=hides, rounds=rounds))
    answer: dict[str, torch.Tensor] = {}

    def forward(number: int) -> tuple[Any, ...]:
        q, k, v = (laid_out(at.inputs[f"{name}{number}"], layout).requires_grad_() for name in "qkv")
        if not takes_part:
            return number, q, k, v, torch.zeros_like(q)
        with at.phase(f"forward {number}"):
            return number, q, k, v, call(q, k, v, group, causal=masks[number], kernel=kernel, **words)

    def backward(number: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor) -> None:
        gradient = laid_out(at.inputs[f"gradient{number}"], layout)
        if takes_part:
            with at.phase(f"backward {number}"):
                o.backward(gradient)
        for name, x in (("q", q), ("k", k), ("v", v)):
            answer[f"d{name}{number}"] = torch.zeros_like(x) if x.grad is None else x.grad
            answer[f"{name}{number} after"] = x.detach()
        answer[f"o{number}"], answer[f"gradient{number} after"] = o.detach(), gradient

    if nested:
        for made in [forward(number) for number in range(len(masks))]:
            backward(*made)
    else:
        for number in range(len(masks)):
            backward(*forward(number))
    return answer


def gated(at: Any, *, direction: str) -> dict[str, torch.Tensor]:
    """One call of ring_attention whose kernel waits at gates in its forward, or in its backward; without a mask."""
    q, k, v = (at.inputs[name].clone().requires_grad_() for name in "qkv")
    kernel = kernel_of(at, Gated(at, direction))
    with at.phase("forward"):
        o = at.submission.ring_attention(q, k, v, causal=False, kernel=kernel)
    with at.phase("backward"):
        o.backward(at.inputs["gradient"])
    return {"o": o.detach(), "dq": zeros_or(q.grad, q)}


def counting(at: Any) -> dict[str, torch.Tensor]:
    """The gradients of one call of ring_attention whose kernel only counts, without a mask."""
    q, k, v = (at.inputs[name].clone().requires_grad_() for name in "qkv")
    at.submission.ring_attention(q, k, v, causal=False, kernel=kernel_of(at, Counting(at))).backward(at.inputs["gradient"])
    return {f"d{name}": zeros_or(x.grad, x) for name, x in (("q", q), ("k", k), ("v", v))}


def large(at: Any, *, has_backward: bool) -> dict[str, torch.Tensor]:
    """A call of ring_attention whose graph is kept, and its backward if asked for. The output, and row sums of dk and dv."""
    give_back_large_blocks()
    q, k, v = (at.inputs[name].requires_grad_() for name in "qkv")
    o = at.submission.ring_attention(q, k, v, causal=False, kernel=kernel_of(at, Attention(at)))
    if not has_backward:
        return {"o": o.detach()}
    o.backward(at.inputs["gradient"])
    return {"o": o.detach(), "dk": zeros_or(k.grad, k).sum(-1), "dv": zeros_or(v.grad, v).sum(-1)}


def give_back_large_blocks() -> None:
    """Have glibc map every block from 128 KiB on by itself, so that a limit counts what is alive and not how the heap is torn."""
    with contextlib.suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**17)


def zeros_or(gradient: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    """A gradient; zeros where there is none."""
    return torch.zeros_like(like) if gradient is None else gradient


# --- zigzag ----------------------------------------------------------------------------------------------------------
def split(at: Any, *, cases: list[dict[str, Any]], groups: list[list[int]] | None = None) -> dict[str, torch.Tensor]:
    """zigzag_split of each input x<n>, zigzag_restore of its part, and, of floats, the gradient of x if the part's is the part itself.

    x with four dims has the second one innermost, and the part is handed to zigzag_restore with the first one innermost. Reported: whether
    the part has memory of its own.
    """
    group, takes_part = group_of(at, groups)
    answer, own, num_bytes = {}, [], []
    for number, case in enumerate(cases):
        x = at.inputs[f"x{number}"]
        x = laid_out(x, "heads innermost") if x.ndim == 4 else x
        x.requires_grad_(x.is_floating_point())
        words = {} if case["dim"] is None else {"dim": case["dim"]}
        with at.phase("split"):
            part = at.submission.zigzag_split(x, group, **words) if takes_part else torch.zeros(case["part"], dtype=x.dtype)
        if part.requires_grad:
            part.backward(part.detach())
        part = part.detach()
        with at.phase("restore"):
            whole = at.submission.zigzag_restore(turned(part), group, **words) if takes_part else x.detach()
        answer |= {f"part{number}": part, f"whole{number}": whole}
        if x.requires_grad:
            answer[f"dx{number}"] = zeros_or(x.grad, x.detach())
        own.append(part.untyped_storage().data_ptr() != x.untyped_storage().data_ptr())
        num_bytes.append(part.untyped_storage().nbytes() if part.is_contiguous() else -1)
    at.report(own=own, num_bytes=num_bytes)
    return answer


# --- refusals --------------------------------------------------------------------------------------------------------
def refusals(at: Any, *, cases: list[dict[str, Any]]) -> None:
    """What calls that can't be done raised: [type, message], or two empty strings."""
    raised = []
    for case in cases:
        try:
            with at.phase("refusal"):
                refused(at, **case)
            raised.append(["", ""])
        except NotImplementedError:
            raise
        except Exception as error:
            raised.append([type(error).__name__, str(error)])
    at.report(raised=raised)


def refused(at: Any, *, function: str, shapes: list[list[int]], options: dict[str, Any], numbers: list[int]) -> None:
    """One call, on zeros."""
    call: Callable[..., Any] = getattr(at.submission, function)
    call(*(torch.zeros(shape) for shape in shapes), **options)


# --- tokens and the loss ---------------------------------------------------------------------------------------------
def shard(at: Any, *, cases: list[dict[str, Any]], groups: list[list[int]] | None = None) -> dict[str, torch.Tensor]:
    """shard_sequence of tokens<n>, labels<n> and, if there are, positions<n>; what it returns, and what the inputs are afterwards."""
    group, takes_part = group_of(at, groups)
    answer, own = {}, []
    for number, case in enumerate(cases):
        tokens, labels = at.inputs[f"tokens{number}"], at.inputs[f"labels{number}"]
        positions = at.inputs.get(f"positions{number}")
        if takes_part:
            with at.phase("shard"):
                made = at.submission.shard_sequence(tokens, labels, positions, group, **case["options"])
        else:
            made = (torch.zeros(tokens.shape[0], case["length"], dtype=torch.int64),) * 2 + (
                torch.zeros(case["length"], dtype=torch.int64),
            )
        answer |= {f"{name}{number}": x for name, x in zip(("tokens", "targets", "positions"), made, strict=True)}
        answer |= {f"tokens{number} after": tokens, f"labels{number} after": labels}
        own.append(all(x.untyped_storage().nbytes() <= x.numel() * x.element_size() for x in made))
    at.report(own=own)
    return answer


def loss(at: Any, *, cases: list[dict[str, Any]], groups: list[list[int]] | None = None) -> dict[str, torch.Tensor]:
    """sequence_cross_entropy of each case's logits<n> and targets<n>, and the gradient of the logits times the case's scale."""
    group, takes_part = group_of(at, groups)
    answer = {}
    for number, case in enumerate(cases):
        logits, targets = turned(at.inputs[f"logits{number}"]).requires_grad_(), turned(at.inputs[f"targets{number}"])
        words = {} if case["ignore_index"] is None else {"ignore_index": case["ignore_index"]}
        value = logits.detach().sum() * 0
        if takes_part:
            with at.phase("forward"):
                value = at.submission.sequence_cross_entropy(logits, targets, group, **words)
            with at.phase("backward"):
                value.backward(torch.tensor(case["scale"], dtype=value.dtype))
        answer |= {f"loss{number}": value.detach(), f"dlogits{number}": zeros_or(logits.grad, logits)}
    return answer


# --- the model -------------------------------------------------------------------------------------------------------
def built(at: Any, config: dict[str, Any]) -> GPT:
    """The whole GPT with the inputs w/<name> as its weights."""
    gpt = GPT(GPTConfig(**config))
    parameters = dict(gpt.named_parameters())
    gpt.to(at.inputs[f"w/{next(iter(parameters))}"].dtype)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(at.inputs[f"w/{name}"])
    return gpt


def plain(at: Any, *, config: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The whole model on the whole sequence, on one rank; nothing of the submission is used."""
    gpt = built(at, config)
    value = gpt(at.inputs["tokens"], at.inputs["targets"])
    value.backward()
    return {f"d/{name}": zeros_or(p.grad, p) for name, p in gpt.named_parameters()} | {"loss": value.detach()}


def model(at: Any, *, config: dict[str, Any], ways: list[dict[str, Any]], groups: list[list[int]] | None = None) -> dict[str, torch.Tensor]:
    """For each way to parallelize: the loss of the rank's shard, and all gradients after sum_gradients."""
    group, _ = group_of(at, groups)
    answer, is_in_place, num_calls = {}, [], []
    for number, way in enumerate(ways):
        gpt = built(at, config)
        attention = Attention(at)
        made = at.submission.parallelize_context(gpt, group, kernel=kernel_of(at, attention), **way)
        zigzag = {"zigzag": True} if way.get("zigzag") else {}
        part = at.submission.shard_sequence(at.inputs["tokens"], at.inputs["labels"], None, group, **zigzag)
        value = made(part.tokens, part.targets, positions_T=part.positions)
        value.backward()
        at.submission.sum_gradients(gpt.parameters(), group)
        answer |= {f"{number}/d/{name}": zeros_or(p.grad, p) for name, p in gpt.named_parameters()} | {f"{number}/loss": value.detach()}
        is_in_place.append(made is gpt)
        num_calls.append(attention.num_calls)
    at.report(is_in_place=is_in_place, num_calls=num_calls)
    return answer


def wrong_ways(at: Any, *, config: dict[str, Any], ways: list[dict[str, Any]]) -> None:
    """What parallelize_context raises for each way, and whether the model's attention and loss are what they were."""
    raised, is_intact = [], []
    for way in ways:
        gpt = GPT(GPTConfig(**config))
        before = [block.attention.attend for block in gpt.blocks] + [gpt.cross_entropy]
        try:
            at.submission.parallelize_context(gpt, **way)
            raised.append("")
        except ValueError as refusal:
            raised.append(type(refusal).__name__)
        is_intact.append(before == [block.attention.attend for block in gpt.blocks] + [gpt.cross_entropy])
    at.report(raised=raised, is_intact=is_intact)


def sums(
    at: Any, *, missing: list[list[str]], frozen: list[str], layout: str, groups: list[list[int]] | None = None, stale: bool = False
) -> Any:  # fmt: skip
    """sum_gradients of parameters with the inputs as gradients.

    missing: by rank, those that have none. stale: frozen ones have one, too.
    """
    group, takes_part = group_of(at, groups)
    parameters = {}
    for name, gradient in at.inputs.items():
        parameters[name] = parameter = nn.Parameter(torch.ones_like(gradient), requires_grad=name not in frozen)
        if name not in missing[at.rank] and (stale or name not in frozen):
            parameter.grad = gradient.mT.contiguous().mT if layout == "transposed" else gradient.clone()
    before = {name: p.grad for name, p in parameters.items()}
    if takes_part:
        with at.phase("sum"):
            at.submission.sum_gradients(iter(parameters.values()), group)
    moved = [name for name, p in parameters.items() if before[name] is not None and p.grad is not before[name]]
    at.report(appeared=[name for name in frozen if before[name] is None and parameters[name].grad is not None], moved=moved)
    return {name: zeros_or(p.grad, p) for name, p in parameters.items()}
