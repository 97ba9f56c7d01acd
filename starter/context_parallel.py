"""Context parallelism: a sequence cut over the ranks, with attention that still sees all of it.

Everything in a transformer but attention works token by token, so each rank can do it for its own tokens. Queries stay where they are, and
keys and values come by: block after block round a ring, or, in the other way (Ulysses), all of them for some of the heads. "Rank" counts
within the group, as everywhere in the course.
"""

# B batch, H query heads, G key/value heads, D head dim, V vocabulary
# T tokens of the whole sequence, N ranks, S = T/N tokens of one rank, Q queries and K keys of one block
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


# --- given: the attention of a block ---------------------------------------------------------------------------------
class Kernel(NamedTuple):
    """Attention of some queries to some keys, as flash attention's kernels have it. `causal`: Q = K, and query i sees keys 0 … i.

    forward: (q_BHQD, k_BGKD, v_BGKD, causal) -> (o_BHQD, lse_BHQ), the log-sum-exp of the scaled scores
    backward: (gradient_BHQD, q, k, v, o, lse, causal) -> (dq, dk, dv); with o and lse of the *whole* softmax, a block's share of each
    """

    forward: Callable[..., tuple[torch.Tensor, torch.Tensor]]
    backward: Callable[..., tuple[torch.Tensor, torch.Tensor, torch.Tensor]]


def wide(x: torch.Tensor) -> torch.Tensor:
    """Return x in the dtype of its arithmetic: float32, or float64 for float64."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def scores_of(q: torch.Tensor, k: torch.Tensor, *, causal: bool) -> torch.Tensor:
    """Return the scaled scores (B, H, Q, K), -inf where a query doesn't see a key."""
    scores = q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT / math.sqrt(q.shape[-1])
    visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril() if causal else None
    return scores if visible is None else scores.masked_fill(~visible, -math.inf)


def dense_forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Textbook attention; o is as wide as its arithmetic."""
    q, k, v = wide(q), wide(k), wide(v)
    scores = scores_of(q, k, causal=causal)
    return scores.softmax(-1) @ v.repeat_interleave(q.shape[1] // v.shape[1], dim=1), scores.logsumexp(-1)


def dense_backward(
    gradient: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, causal: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same backward, from the log-sum-exp."""
    gradient, q, k, v, o = wide(gradient), wide(q), wide(k), wide(v), wide(o)
    num_sharing = q.shape[1] // k.shape[1]
    p = (scores_of(q, k, causal=causal) - lse[..., None]).exp()  # what the whole softmax gives to this block's keys
    dp = gradient @ v.repeat_interleave(num_sharing, dim=1).mT
    ds = p * (dp - (gradient * o).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
    dq = ds @ k.repeat_interleave(num_sharing, dim=1)
    dk, dv = (x.unflatten(1, (-1, num_sharing)).sum(2) for x in (ds.mT @ q, p.mT @ gradient))
    return dq, dk, dv


DENSE = Kernel(dense_forward, dense_backward)


class WholeAttention(torch.autograd.Function):
    """A kernel with a gradient: (q, k, v, causal, kernel) -> o. For keys that are all here."""

    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, kernel: Kernel) -> torch.Tensor:
        o, lse = kernel.forward(q, k, v, causal)
        ctx.causal, ctx.kernel, o = causal, kernel, o.to(q.dtype)
        ctx.save_for_backward(q, k, v, o, lse)
        return o

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k, v, o, lse = ctx.saved_tensors
        dq, dk, dv = ctx.kernel.backward(gradient, q, k, v, o, lse, ctx.causal)
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None


# --- task merging ----------------------------------------------------------------------------------------------------
def merge_attention(
    o_a: torch.Tensor, lse_a: torch.Tensor, o_b: torch.Tensor, lse_b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return (o, lse) of the softmax over two sets of keys together, from those of each: o (…, D), lse (…).

    In float32 (float64 for float64) whatever the dtype of o_a and o_b. A row whose lse is -inf has seen no key, and what its o holds
    means nothing; a row that has seen none in either set gives 0 and -inf. No input is changed.
    """
    raise NotImplementedError("context_parallel, task merging: see section 3 of the handout")


# --- task ring -------------------------------------------------------------------------------------------------------
class Passing(NamedTuple):
    """Tensors on their way along the ring."""

    arriving: list[torch.Tensor]  # from rank r-1; to be read only after `wait`
    leaving: list[torch.Tensor]  # to rank r+1; they belong to the network until then
    works: list[dist.Work]

    def wait(self) -> list[torch.Tensor]:
        """Return what has arrived."""
        for work in self.works:
            work.wait()
        return self.arriving


def start_passing(tensors: Iterable[torch.Tensor], group: dist.ProcessGroup | None) -> Passing:
    """Begin to send `tensors` to rank r+1 and to receive its like from rank r-1, and don't wait. A helper: never called by the tests."""
    raise NotImplementedError("context_parallel, task ring: see sections 4 to 6 of the handout")


Block = tuple[slice, slice, bool]  # which of this rank's queries, which of the source's keys, and whether the kernel masks


def visible_blocks(rank: int, source: int, num_tokens: int, *, causal: bool, zigzag: bool) -> list[Block]:
    """Return what the queries of `rank` see of the keys of `source`, S = num_tokens each. A helper: never called by the tests."""
    raise NotImplementedError("context_parallel, task ring: see sections 4 to 6 of the handout")


class RingAttention(torch.autograd.Function):
    """Attention of this rank's queries to the keys of all ranks."""

    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, group: dist.ProcessGroup | None, causal: bool, zigzag: bool,
        kernel: Kernel,
    ) -> torch.Tensor:  # fmt: skip
        ctx.group, ctx.causal, ctx.zigzag, ctx.kernel = group, causal, zigzag, kernel
        raise NotImplementedError("context_parallel, task ring: see sections 4 to 6 of the handout")

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k, v, o, lse = ctx.saved_tensors
        group, causal, zigzag, kernel = ctx.group, ctx.causal, ctx.zigzag, ctx.kernel
        raise NotImplementedError("context_parallel, task ring: see sections 4 to 6 of the handout")


def ring_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, group: dist.ProcessGroup | None = None, *,
    causal: bool, zigzag: bool = False, kernel: Kernel = DENSE,
) -> torch.Tensor:  # fmt: skip
    """Attention over the whole sequence, of this rank's q (B, H, S, D) to all ranks' k and v (B, G, S, D) -> o (B, H, S, D), q's dtype.

    zigzag: which tokens a rank has, those of zigzag_split or the r-th N-th of the sequence. All attention is computed by `kernel`.
    """
    raise NotImplementedError("context_parallel, task ring: see sections 4 to 6 of the handout")


# --- task zigzag -----------------------------------------------------------------------------------------------------
def zigzag_split(x: torch.Tensor, group: dist.ProcessGroup | None = None, *, dim: int = 1) -> torch.Tensor:
    """Return this rank's tokens of the whole x: chunks r and 2N-1-r of 2N along `dim`, in a tensor of its own."""
    raise NotImplementedError("context_parallel, task zigzag: see section 7 of the handout")


def zigzag_restore(x: torch.Tensor, group: dist.ProcessGroup | None = None, *, dim: int = 1) -> torch.Tensor:
    """Return the whole from the ranks' parts, on every rank: what zigzag_split has cut. Without a gradient."""
    raise NotImplementedError("context_parallel, task zigzag: see section 7 of the handout")


# --- task ulysses ----------------------------------------------------------------------------------------------------
def exchange(x: torch.Tensor, group: dist.ProcessGroup | None, *, cut: int, join: int) -> torch.Tensor:
    """Cut x into N parts along `cut`, the j-th for rank j; join those that arrive along `join`. A helper: never called by the tests."""
    raise NotImplementedError("context_parallel, task ulysses: see section 8 of the handout")


class Exchange(torch.autograd.Function):
    """`exchange` with a gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: dist.ProcessGroup | None, cut: int, join: int) -> torch.Tensor:
        ctx.group, ctx.cut, ctx.join = group, cut, join
        return exchange(x, group, cut=cut, join=join)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        raise NotImplementedError("context_parallel, task ulysses: see section 8 of the handout")


def ulysses_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, group: dist.ProcessGroup | None = None, *,
    causal: bool, kernel: Kernel = DENSE,
) -> torch.Tensor:  # fmt: skip
    """Attention over the whole sequence by heads: as ring_attention without zigzag. N divides H and G, or ValueError."""
    raise NotImplementedError("context_parallel, task ulysses: see section 8 of the handout")


# --- task sequence ---------------------------------------------------------------------------------------------------
class Shard(NamedTuple):
    """What a rank needs of the batch."""

    tokens: torch.Tensor  # (B, S)
    targets: torch.Tensor  # (B, S), the next token's label at each place
    positions: torch.Tensor  # (S,), where in the whole sequence they stand


def shard_sequence(
    tokens: torch.Tensor, labels: torch.Tensor, positions: torch.Tensor | None = None, group: dist.ProcessGroup | None = None, *,
    zigzag: bool = False, ignore_index: int = -100,
) -> Shard:  # fmt: skip
    """Return this rank's part of tokens and labels (B, T), the same on all ranks; labels[:, t] is that of the token at t, not of the next.

    positions: (T,), 0 … T-1 if None. T is padded at its end until it can be cut: token 0, target ignore_index, position 0.
    """
    raise NotImplementedError("context_parallel, task sequence: see section 9 of the handout")


class SumOverRanks(torch.autograd.Function):
    """The sum of all ranks' x. What follows is the same on all ranks, so the gradient is that of the sum itself."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: dist.ProcessGroup | None) -> torch.Tensor:
        raise NotImplementedError("context_parallel, task sequence: see section 9 of the handout")

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        raise NotImplementedError("context_parallel, task sequence: see section 9 of the handout")


def sequence_cross_entropy(
    logits: torch.Tensor, targets: torch.Tensor, group: dist.ProcessGroup | None = None, *, ignore_index: int = -100
) -> torch.Tensor:  # fmt: skip
    """Return the mean cross-entropy over all ranks' targets that aren't ignored, the same on all ranks: logits (…, V), targets (…).

    In float32 (float64 for float64). NaN if all targets of all ranks are ignored.
    """
    raise NotImplementedError("context_parallel, task sequence: see section 9 of the handout")


# --- task model ------------------------------------------------------------------------------------------------------
def parallelize_context(
    gpt: nn.Module, group: dist.ProcessGroup | None = None, *, method: str = "ring", zigzag: bool = False, kernel: Kernel = DENSE
) -> nn.Module:  # fmt: skip
    """Let a GPT of `lm.gpt` work on a Shard, in place, and return it: gpt(tokens, targets, positions_T=positions) is the whole's loss.

    method: "ring", or "ulysses" (without zigzag); anything else raises ValueError, and gpt is as it was.
    """
    raise NotImplementedError("context_parallel, task model: see section 10 of the handout")


def sum_gradients(parameters: Iterable[nn.Parameter], group: dist.ProcessGroup | None = None) -> None:
    """Make every trained parameter's grad the sum over the ranks, in place. A grad of None counts as zeros, and becomes the sum."""
    raise NotImplementedError("context_parallel, task model: see section 10 of the handout")
