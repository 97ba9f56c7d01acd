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
    # region solution merge_attention
    # log(e^a + e^b), with the larger one taken out before anything is raised to a power; -inf and -inf give -inf.
    lse = torch.logaddexp(wide(lse_a), wide(lse_b))
    o = torch.zeros_like(wide(o_a))
    for o_part, lse_part in ((o_a, lse_a), (o_b, lse_b)):
        # Each set's share of the whole sum: e^(lse_part - lse). Of a row that saw nothing, 0 · NaN would be NaN: it is left out.
        is_empty = (lse_part == -math.inf)[..., None]
        o += (wide(o_part) * (lse_part - lse).exp()[..., None]).masked_fill(is_empty, 0)
    return o, lse
    # endregion


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
    # region solution start_passing
    rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
    leaving = [tensor.contiguous() for tensor in tensors]
    arriving = [torch.empty_like(tensor) for tensor in leaving]
    # Sends and receives in one batch: no rank waits for its turn, and NCCL needs it so.
    sends = [dist.P2POp(dist.isend, tensor, group=group, group_peer=(rank + 1) % num_ranks) for tensor in leaving]
    receives = [dist.P2POp(dist.irecv, tensor, group=group, group_peer=(rank - 1) % num_ranks) for tensor in arriving]
    return Passing(arriving, leaving, dist.batch_isend_irecv(sends + receives))
    # endregion


Block = tuple[slice, slice, bool]  # which of this rank's queries, which of the source's keys, and whether the kernel masks


def visible_blocks(rank: int, source: int, num_tokens: int, *, causal: bool, zigzag: bool) -> list[Block]:
    """Return what the queries of `rank` see of the keys of `source`, S = num_tokens each. A helper: never called by the tests."""
    # region solution visible_blocks
    everything, first, second = slice(None), slice(num_tokens // 2), slice(num_tokens // 2, None)
    if not causal:
        return [(everything, everything, False)]
    if source == rank:
        # A rank's tokens are in the order of the sequence, in zigzag too: the mask of its own block is the usual one.
        return [(everything, everything, True)]
    if not zigzag:
        return [(everything, everything, False)] if source < rank else []
    # Chunks r and 2N-1-r look at chunks j and 2N-1-j. From an earlier rank only the first one is in the past, of both; to a later rank's
    # two chunks only our second one looks back. Half a block either way: all ranks have the same to do.
    return [(everything, first, False)] if source < rank else [(second, everything, False)]
    # endregion


class RingAttention(torch.autograd.Function):
    """Attention of this rank's queries to the keys of all ranks."""

    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, group: dist.ProcessGroup | None, causal: bool, zigzag: bool,
        kernel: Kernel,
    ) -> torch.Tensor:  # fmt: skip
        ctx.group, ctx.causal, ctx.zigzag, ctx.kernel = group, causal, zigzag, kernel
        # region solution ring_forward
        rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
        o = torch.zeros_like(q, dtype=wide(q).dtype)  # merged so far: nothing seen yet
        lse = torch.full(q.shape[:-1], -math.inf, dtype=o.dtype, device=q.device)
        held = [k, v]
        for step in range(num_ranks):
            source = (rank - step) % num_ranks
            # First the network, then the arithmetic: the next block travels while this one is computed.
            passing = start_passing(held, group) if step < num_ranks - 1 else None
            for queries, keys, masked in visible_blocks(rank, source, k.shape[2], causal=causal, zigzag=zigzag):
                block = kernel.forward(q[:, :, queries], *(x[:, :, keys] for x in held), masked)
                o[:, :, queries], lse[:, :, queries] = merge_attention(o[:, :, queries], lse[:, :, queries], *block)
            if passing is not None:
                held = passing.wait()
        o = o.to(q.dtype)
        ctx.save_for_backward(q, k, v, o, lse)  # this rank's own: the others' come round again
        return o
        # endregion

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k, v, o, lse = ctx.saved_tensors
        group, causal, zigzag, kernel = ctx.group, ctx.causal, ctx.zigzag, ctx.kernel
        # region solution ring_backward
        rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
        dq, own = torch.zeros_like(wide(q)), [torch.zeros_like(wide(k)), torch.zeros_like(wide(v))]
        held, sums = [k, v], None
        for step in range(num_ranks):
            source = (rank - step) % num_ranks
            passing = start_passing(held, group) if step < num_ranks - 1 else None
            here = own if step == 0 else [torch.zeros_like(x) for x in own]
            for queries, keys, masked in visible_blocks(rank, source, k.shape[2], causal=causal, zigzag=zigzag):
                # With o and lse of the whole softmax, the blocks' gradients just add up.
                rows = (x[:, :, queries] for x in (o, lse))
                share = kernel.backward(gradient[:, :, queries], q[:, :, queries], *(x[:, :, keys] for x in held), *rows, masked)
                dq[:, :, queries] += share[0]
                for total, part in zip(here, share[1:], strict=True):
                    total[:, :, keys] += part
            if step > 0:
                # The sums for these keys follow them one step behind: they began at the rank after the keys' own, and the last rank
                # that sees the keys is the one before it. So they come home after N-1 hops, to where own has been waiting.
                if sums is not None:
                    here = [a + b for a, b in zip(here, sums.wait(), strict=True)]
                sums = start_passing(here, group)
            if passing is not None:
                held = passing.wait()
        if sums is not None:
            own = [a + b for a, b in zip(own, sums.wait(), strict=True)]
        return dq.to(q.dtype), own[0].to(k.dtype), own[1].to(v.dtype), None, None, None, None
        # endregion


def ring_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, group: dist.ProcessGroup | None = None, *,
    causal: bool, zigzag: bool = False, kernel: Kernel = DENSE,
) -> torch.Tensor:  # fmt: skip
    """Attention over the whole sequence, of this rank's q (B, H, S, D) to all ranks' k and v (B, G, S, D) -> o (B, H, S, D), q's dtype.

    zigzag: which tokens a rank has, those of zigzag_split or the r-th N-th of the sequence. All attention is computed by `kernel`.
    """
    # region solution ring_attention
    if causal and q.shape[2] != k.shape[2]:
        raise ValueError(f"causal attention needs as many queries as keys, not {q.shape[2]} and {k.shape[2]}")
    if zigzag and k.shape[2] % 2:
        raise ValueError(f"zigzag has two chunks of one length on each rank: {k.shape[2]} tokens are no multiple of 2")
    return RingAttention.apply(q, k, v, group, causal, zigzag, kernel)
    # endregion


# --- task zigzag -----------------------------------------------------------------------------------------------------
def zigzag_split(x: torch.Tensor, group: dist.ProcessGroup | None = None, *, dim: int = 1) -> torch.Tensor:
    """Return this rank's tokens of the whole x: chunks r and 2N-1-r of 2N along `dim`, in a tensor of its own."""
    # region solution zigzag_split
    rank, num_chunks = dist.get_rank(group), 2 * dist.get_world_size(group)
    if x.shape[dim] % num_chunks:
        raise ValueError(f"{x.shape[dim]} tokens can't be cut into {num_chunks} equal chunks")
    chunks = x.chunk(num_chunks, dim)
    # cat may keep a layout such as channels_last
    return torch.cat([chunks[rank], chunks[num_chunks - 1 - rank]], dim).contiguous()
    # endregion


def zigzag_restore(x: torch.Tensor, group: dist.ProcessGroup | None = None, *, dim: int = 1) -> torch.Tensor:
    """Return the whole from the ranks' parts, on every rank: what zigzag_split has cut. Without a gradient."""
    # region solution zigzag_restore
    num_ranks = dist.get_world_size(group)
    parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(num_ranks)]
    dist.all_gather(parts, x.detach().contiguous(), group=group)
    # First chunks in the order of the ranks, then second ones from the last rank to the first.
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([first for first, _ in halves] + [second for _, second in reversed(halves)], dim)
    # endregion


# --- task ulysses ----------------------------------------------------------------------------------------------------
def exchange(x: torch.Tensor, group: dist.ProcessGroup | None, *, cut: int, join: int) -> torch.Tensor:
    """Cut x into N parts along `cut`, the j-th for rank j; join those that arrive along `join`. A helper: never called by the tests."""
    # region solution exchange
    # One part after the other. Stacking may keep a layout such as channels_last, and the network wants none.
    leaving = torch.stack(x.chunk(dist.get_world_size(group), cut)).contiguous()
    arriving = torch.empty_like(leaving)
    dist.all_to_all_single(arriving, leaving, group=group)
    return torch.cat(arriving.unbind(), join)
    # endregion


class Exchange(torch.autograd.Function):
    """`exchange` with a gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: dist.ProcessGroup | None, cut: int, join: int) -> torch.Tensor:
        ctx.group, ctx.cut, ctx.join = group, cut, join
        return exchange(x, group, cut=cut, join=join)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        # region solution exchange_backward
        # Every number has gone to one place; its gradient goes back the same way.
        return exchange(gradient, ctx.group, cut=ctx.join, join=ctx.cut), None, None, None
        # endregion


def ulysses_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, group: dist.ProcessGroup | None = None, *,
    causal: bool, kernel: Kernel = DENSE,
) -> torch.Tensor:  # fmt: skip
    """Attention over the whole sequence by heads: as ring_attention without zigzag. N divides H and G, or ValueError."""
    # region solution ulysses_attention
    num_ranks = dist.get_world_size(group)
    for name, x in (("query", q), ("key", k)):
        if x.shape[1] % num_ranks:
            raise ValueError(f"{x.shape[1]} {name} heads can't be shared out to {num_ranks} ranks")
    # (B, H, S, D), all heads of some tokens, becomes (B, H/N, T, D), some heads of all tokens.
    q, k, v = (Exchange.apply(x, group, 1, 2) for x in (q, k, v))
    o = WholeAttention.apply(q, k, v, causal, kernel)
    return Exchange.apply(o, group, 2, 1)
    # endregion


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
    # region solution shard_sequence
    rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
    num_tokens = tokens.shape[1]
    positions = torch.arange(num_tokens, device=tokens.device) if positions is None else positions
    # Shifted while the sequence is whole: the target of a rank's last token is another rank's label.
    targets = F.pad(labels[:, 1:], (0, 1), value=ignore_index)
    num_missing = -num_tokens % (2 * num_ranks if zigzag else num_ranks)
    # Behind the end: causal queries never look there.
    tokens, positions = F.pad(tokens, (0, num_missing)), F.pad(positions, (0, num_missing))
    targets = F.pad(targets, (0, num_missing), value=ignore_index)
    if zigzag:
        return Shard(*(zigzag_split(x, group, dim=x.ndim - 1) for x in (tokens, targets, positions)))
    return Shard(*(x.chunk(num_ranks, -1)[rank].clone() for x in (tokens, targets, positions)))
    # endregion


class SumOverRanks(torch.autograd.Function):
    """The sum of all ranks' x. What follows is the same on all ranks, so the gradient is that of the sum itself."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: dist.ProcessGroup | None) -> torch.Tensor:
        # region solution sum_forward
        total = x.clone()
        dist.all_reduce(total, group=group)
        return total
        # endregion

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        # region solution sum_backward
        return gradient, None
        # endregion


def sequence_cross_entropy(
    logits: torch.Tensor, targets: torch.Tensor, group: dist.ProcessGroup | None = None, *, ignore_index: int = -100
) -> torch.Tensor:  # fmt: skip
    """Return the mean cross-entropy over all ranks' targets that aren't ignored, the same on all ranks: logits (…, V), targets (…).

    In float32 (float64 for float64). NaN if all targets of all ranks are ignored.
    """
    # region solution sequence_cross_entropy
    total = F.cross_entropy(wide(logits).flatten(0, -2), targets.flatten(), ignore_index=ignore_index, reduction="sum")
    # Ranks have different numbers of targets: a mean of means would count a token of a padded rank for more than others.
    count = (targets != ignore_index).sum()
    dist.all_reduce(count, group=group)
    return SumOverRanks.apply(total / count, group)
    # endregion


# --- task model ------------------------------------------------------------------------------------------------------
def parallelize_context(
    gpt: nn.Module, group: dist.ProcessGroup | None = None, *, method: str = "ring", zigzag: bool = False, kernel: Kernel = DENSE
) -> nn.Module:  # fmt: skip
    """Let a GPT of `lm.gpt` work on a Shard, in place, and return it: gpt(tokens, targets, positions_T=positions) is the whole's loss.

    method: "ring", or "ulysses" (without zigzag); anything else raises ValueError, and gpt is as it was.
    """
    # region solution parallelize_context
    if method not in ("ring", "ulysses") or (method == "ulysses" and zigzag):
        raise ValueError(f"no context parallelism by {method}{' with zigzag' if zigzag else ''}")
    if method == "ring":
        attend = functools.partial(ring_attention, group=group, zigzag=zigzag, kernel=kernel)
    else:
        attend = functools.partial(ulysses_attention, group=group, kernel=kernel)
    for block in gpt.blocks:
        block.attention.attend = attend
    gpt.cross_entropy = functools.partial(sequence_cross_entropy, group=group)
    return gpt
    # endregion


def sum_gradients(parameters: Iterable[nn.Parameter], group: dist.ProcessGroup | None = None) -> None:
    """Make every trained parameter's grad the sum over the ranks, in place. A grad of None counts as zeros, and becomes the sum."""
    # region solution sum_gradients
    for parameter in parameters:
        if not parameter.requires_grad:
            continue
        gradient = (torch.zeros_like(parameter) if parameter.grad is None else parameter.grad).contiguous()
        # Each rank's loss is the whole mean, and its gradient its own tokens' part of it: a sum, and divided by nothing.
        dist.all_reduce(gradient, group=group)
        if parameter.grad is None:
            parameter.grad = gradient
        elif parameter.grad is not gradient:
            parameter.grad.copy_(gradient)
    # endregion
