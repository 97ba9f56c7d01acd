"""Tensor parallelism: every matrix is cut, every rank multiplies with its slice, and two all-reduces per block join the partial sums.

`group=None` means the default group, as in torch; "rank" and N count within the group. A layer is made from the whole layer that it
replaces: so any degree starts from the same weights.
"""

# N ranks in the group; B batch, T tokens, C hidden size, V vocabulary, P = ceil(V / N) rows of it per rank
from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from lm.checkpoint import random_states, restore_random_states
from lm.gpt import GPT

Group = dist.ProcessGroup | None
# torch 2.13 calls them so; before, they had longer names.
all_gather_single = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
reduce_scatter_single = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)


# --- helpers for yourself: never called by the tests -----------------------------------------------------------------
def own_part(x: Tensor, dim: int, group: Group) -> Tensor:
    """Return this rank's N-th of `x` along `dim`, a view; ValueError where N doesn't divide it."""
    # region solution own_part
    world_size, extent = dist.get_world_size(group), x.shape[dim]
    if extent % world_size:
        raise ValueError(f"{extent} along dim {dim} can't be cut into {world_size} equal parts, one for each tensor-parallel rank")
    return x.chunk(world_size, dim)[dist.get_rank(group)]
    # endregion


def summed(x: Tensor, group: Group) -> Tensor:
    """Return the sum of all ranks' `x` in new memory."""
    # region solution summed
    # A copy, because all_reduce writes where it reads; contiguous, because it reads memory from the first element on.
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=group)
    return total
    # endregion


def gathered(x: Tensor, dim: int, group: Group) -> Tensor:
    """Return all ranks' `x`, joined along `dim` in the order of the ranks."""
    # region solution gathered
    # Collectives put the parts one after the other in memory, so what is joined must be the first dim while it travels.
    part = x.movedim(dim, 0).contiguous()
    whole = part.new_empty((dist.get_world_size(group) * part.shape[0], *part.shape[1:]))
    all_gather_single(whole, part, group=group)
    return whole.movedim(0, dim)
    # endregion


def summed_part(x: Tensor, dim: int, group: Group) -> Tensor:
    """Return this rank's N-th along `dim` of the sum of all ranks' `x`; ValueError where N doesn't divide it."""
    # region solution summed_part
    whole = x.movedim(dim, 0).contiguous()
    part = torch.empty_like(own_part(whole, 0, group))
    reduce_scatter_single(part, whole, group=group)
    return part.movedim(0, dim)
    # endregion


# --- task functions --------------------------------------------------------------------------------------------------
class CopyToTensorParallel(torch.autograd.Function):
    """Megatron's f: a whole tensor enters the region where each rank computes something else with it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        """Every rank has all of x already."""
        # region solution copy_forward
        ctx.group = group
        return x.view_as(x)
        # endregion

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """x was used on every rank, and a gradient is the sum over all uses."""
        # region solution copy_backward
        return summed(gradient, ctx.group), None
        # endregion


class ReduceFromTensorParallel(torch.autograd.Function):
    """Megatron's g: each rank's partial sum leaves the region, and all ranks have the whole sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        """The sum over the ranks."""
        # region solution reduce_forward
        return summed(x, group)
        # endregion

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """d(a + b)/da = 1: each addend gets the gradient of the sum, which every rank has already."""
        # region solution reduce_backward
        return gradient, None
        # endregion


class ScatterToTensorParallel(torch.autograd.Function):
    """A whole tensor enters the region, and each rank takes its part of the last dim."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        """This rank's part. In memory of its own: a view that an autograd function returns may not be written to."""
        # region solution scatter_forward
        ctx.group = group
        return own_part(x, -1, group).contiguous()
        # endregion

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Each rank knows the gradient of its part; all need that of the whole."""
        # region solution scatter_backward
        return gathered(gradient, -1, ctx.group), None
        # endregion


class GatherFromTensorParallel(torch.autograd.Function):
    """Parts leave the region, and all ranks have the whole, joined along the last dim."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        """All parts, in the order of the ranks."""
        # region solution gather_forward
        ctx.group = group
        return gathered(x, -1, group)
        # endregion

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """All ranks computed the same with the whole, so the part of this rank's own gradient is the gradient of its part."""
        # region solution gather_backward
        return own_part(gradient, -1, ctx.group), None
        # endregion


class AllGatherSequence(torch.autograd.Function):
    """f with cut tokens: each rank's tokens enter, and every rank computes something else with all of them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group, dim: int) -> Tensor:
        """All tokens."""
        # region solution all_gather_sequence_forward
        ctx.group, ctx.dim = group, dim
        return gathered(x, dim, group)
        # endregion

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Every rank used every token: the gradients add up, and each rank needs only those of its own tokens."""
        # region solution all_gather_sequence_backward
        return summed_part(gradient, ctx.dim, ctx.group), None, None
        # endregion


class ReduceScatterSequence(torch.autograd.Function):
    """g with cut tokens: partial sums of all tokens leave, and each rank has the whole sums of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group, dim: int) -> Tensor:
        """The sum over the ranks, this rank's tokens of it."""
        # region solution reduce_scatter_sequence_forward
        ctx.group, ctx.dim = group, dim
        return summed_part(x, dim, group)
        # endregion

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Every rank added to every token, so it needs the gradients of all."""
        # region solution reduce_scatter_sequence_backward
        return gathered(gradient, ctx.dim, ctx.group), None, None
        # endregion


def copy_to_tensor_parallel(x: Tensor, group: Group = None) -> Tensor:
    """f: return x; its gradient is summed over the ranks."""
    return CopyToTensorParallel.apply(x, group)  # type: ignore[no-any-return]


def reduce_from_tensor_parallel(x: Tensor, group: Group = None) -> Tensor:
    """g: return the sum of all ranks' x; its gradient passes as it is."""
    return ReduceFromTensorParallel.apply(x, group)  # type: ignore[no-any-return]


def scatter_to_tensor_parallel(x: Tensor, group: Group = None) -> Tensor:
    """Return this rank's part of the last dim; ValueError where N doesn't divide it. Its gradient is gathered."""
    return ScatterToTensorParallel.apply(x, group)  # type: ignore[no-any-return]


def gather_from_tensor_parallel(x: Tensor, group: Group = None) -> Tensor:
    """Return all ranks' x joined along the last dim; its gradient is this rank's part."""
    return GatherFromTensorParallel.apply(x, group)  # type: ignore[no-any-return]


def all_gather_sequence(x: Tensor, group: Group = None, dim: int = 1) -> Tensor:
    """Return all ranks' tokens joined along `dim`; its gradient is summed over the ranks and cut."""
    return AllGatherSequence.apply(x, group, dim)  # type: ignore[no-any-return]


def reduce_scatter_sequence(x: Tensor, group: Group = None, dim: int = 1) -> Tensor:
    """Return this rank's tokens of the sum of all ranks' x; ValueError where N doesn't divide them. Its gradient is gathered."""
    return ReduceScatterSequence.apply(x, group, dim)  # type: ignore[no-any-return]


# --- tasks linear and vocabulary -------------------------------------------------------------------------------------
def cut(whole: Tensor, dim: int, group: Group, *, pad: bool = False) -> nn.Parameter:
    """Return this rank's part as a parameter, marked `is_cut`; pad: with rows of zeros at the whole's end. A helper for yourself."""
    # region solution cut
    whole = whole.detach()
    if pad:  # F.pad counts its pairs from the last dim backwards
        whole = F.pad(whole, (0, 0) * (whole.dim() - 1) + (0, -len(whole) % dist.get_world_size(group)))
    # A clone: a view would keep the whole matrix alive, and nothing would have been saved.
    parameter = nn.Parameter(own_part(whole, dim, group).clone(memory_format=torch.contiguous_format))
    parameter.is_cut = True  # type: ignore[attr-defined]
    return parameter
    # endregion


class ColumnParallelLinear(nn.Module):
    """A linear layer of which each rank computes an N-th of the outputs (columns of Wᵀ, rows of nn.Linear's weight)."""

    is_entered = False  # True on layers that share an input: it has been through f, or the gather, before it came here

    def __init__(self, linear: nn.Linear, group: Group = None, *, gather_output: bool = False,
                 sequence_parallel: bool = False, pad: bool = False) -> None:  # fmt: skip
        """Cut `linear`: weight (out/N, in) and bias (out/N) or None; ValueError where N doesn't divide the outputs and `pad` is off.

        gather_output: return all outputs on every rank. sequence_parallel: the input is this rank's tokens (dim 1) of it.
        pad: first append outputs whose weights and biases are zero, as many as make N divide them.
        """
        super().__init__()
        # region solution column_init
        self.group, self.gather_output, self.sequence_parallel = group, gather_output, sequence_parallel
        self.weight = cut(linear.weight, 0, group, pad=pad)
        self.bias = None if linear.bias is None else cut(linear.bias, 0, group, pad=pad)
        # endregion

    def forward(self, x: Tensor) -> Tensor:
        """Return this rank's outputs (…, out/N), or all of them with gather_output."""
        # region solution column_forward
        if not self.is_entered:
            x = all_gather_sequence(x, self.group) if self.sequence_parallel else copy_to_tensor_parallel(x, self.group)
        y = F.linear(x, self.weight, self.bias)
        return gather_from_tensor_parallel(y, self.group) if self.gather_output else y
        # endregion


class RowParallelLinear(nn.Module):
    """A linear layer of which each rank takes an N-th of the inputs (rows of Wᵀ, columns of nn.Linear's weight)."""

    def __init__(self, linear: nn.Linear, group: Group = None, *, input_is_parallel: bool = True, sequence_parallel: bool = False) -> None:
        """Cut `linear`: weight (out, in/N); the bias stays whole; ValueError where N doesn't divide the inputs.

        input_is_parallel: the input is this rank's part already, as a column-parallel layer leaves it; else the whole one, on all ranks.
        sequence_parallel: return this rank's tokens (dim 1) only.
        """
        super().__init__()
        # region solution row_init
        self.group, self.input_is_parallel, self.sequence_parallel = group, input_is_parallel, sequence_parallel
        self.weight = cut(linear.weight, 1, group)
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone())
        # endregion

    def forward(self, x: Tensor) -> Tensor:
        """Return the whole sums, the same on all ranks; under sequence parallelism those of this rank's tokens."""
        # region solution row_forward
        part = x if self.input_is_parallel else scatter_to_tensor_parallel(x, self.group)
        partial_y = F.linear(part, self.weight)
        y = reduce_scatter_sequence(partial_y, self.group) if self.sequence_parallel else reduce_from_tensor_parallel(partial_y, self.group)
        if self.bias is None:
            return y
        # After the sum: before it, the bias would be added N times. With cut tokens each rank's bias sees some tokens only; f adds up.
        return y + (copy_to_tensor_parallel(self.bias, self.group) if self.sequence_parallel else self.bias)
        # endregion


class VocabParallelEmbedding(nn.Module):
    """An embedding of which each rank holds P = ceil(V / N) rows; the last ones may be padding."""

    def __init__(self, embedding: nn.Embedding, group: Group = None, *, sequence_parallel: bool = False) -> None:
        """Cut `embedding`: weight (P, C), rank r's rows are r·P … r·P + P − 1 of the vocabulary, those beyond it zeros.

        sequence_parallel: return this rank's tokens (dim 1) only.
        """
        super().__init__()
        # region solution embedding_init
        self.group, self.sequence_parallel = group, sequence_parallel
        self.weight = cut(embedding.weight, 0, group, pad=True)
        self.first_row = dist.get_rank(group) * len(self.weight)
        # endregion

    def forward(self, tokens: Tensor) -> Tensor:
        """Return (…, C), the same on all ranks; under sequence parallelism that of this rank's tokens. `tokens` is whole."""
        # region solution embedding_forward
        row = tokens - self.first_row
        is_elsewhere = (row < 0) | (row >= len(self.weight))
        # Each token is one rank's, and the others add zeros to it. Row 0 stands in where there is none; what it gives is thrown away.
        x = F.embedding(row.masked_fill(is_elsewhere, 0), self.weight).masked_fill(is_elsewhere.unsqueeze(-1), 0)
        return reduce_scatter_sequence(x, self.group) if self.sequence_parallel else reduce_from_tensor_parallel(x, self.group)
        # endregion


class VocabParallelCrossEntropy(torch.autograd.Function):
    """The mean cross-entropy of logits whose vocabulary is cut. A few numbers per token travel, never a logit that isn't a target."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, group: Group, vocab_size: int, ignore_index: int) -> Tensor:
        """-log softmax at the target = log Σ exp(z - m) - (z_target - m), with m the largest logit of all ranks."""
        # region solution cross_entropy_forward
        num_rows = logits.shape[-1]
        first_row = dist.get_rank(group) * num_rows
        scores = logits.double() if logits.dtype == torch.float64 else logits.float()
        # Padding is no token. As -inf it is never the largest, and its exponential is 0; as 0 it would take a share of the softmax.
        num_real = min(max(vocab_size - first_row, 0), num_rows)
        if num_real < num_rows:
            scores = F.pad(scores[..., :num_real], (0, num_rows - num_real), value=-torch.inf)

        largest = scores.amax(-1)
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
        scores = scores - largest.unsqueeze(-1)

        # Only the rank that owns the target's row knows its score; the others add zero, as in the embedding.
        counts = targets != ignore_index
        row = targets - first_row
        is_here = counts & (row >= 0) & (row < num_rows)
        row = row.where(is_here, 0)
        target_score = scores.gather(-1, row.unsqueeze(-1)).squeeze(-1).where(is_here, 0)

        exponentials = scores.exp_()
        sums = torch.stack((exponentials.sum(-1), target_score))
        dist.all_reduce(sums, group=group)  # both in one message: a latency less
        denominator, target_score = sums

        num_counted = counts.sum()
        ctx.save_for_backward(exponentials, denominator, row, is_here, counts, num_counted)
        ctx.dtype = logits.dtype
        return (denominator.log() - target_score).where(counts, 0).sum() / num_counted
        # endregion

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        """(softmax - one-hot) / number of targets, each rank for its own columns: nothing needs to travel."""
        # region solution cross_entropy_backward
        exponentials, denominator, row, is_here, counts, num_counted = ctx.saved_tensors
        scale = gradient / num_counted * counts
        d_logits = exponentials * (scale / denominator).unsqueeze(-1)
        d_logits.scatter_add_(-1, row.unsqueeze(-1), -(scale * is_here).unsqueeze(-1))
        return d_logits.to(ctx.dtype), None, None, None, None
        # endregion


def vocab_parallel_cross_entropy(
    logits: Tensor, targets: Tensor, group: Group = None, *, vocab_size: int, ignore_index: int = -100
) -> Tensor:
    """Return the mean cross-entropy over the targets that aren't `ignore_index`, the same scalar on all ranks, in float32 or float64.

    logits: (…, P), this rank's columns r·P … r·P + P − 1; those from `vocab_size` on are padding. targets: (…), whole, on all ranks.
    """
    return VocabParallelCrossEntropy.apply(logits, targets, group, vocab_size, ignore_index)  # type: ignore[no-any-return]


# --- task randomness -------------------------------------------------------------------------------------------------
class RankRandom:
    """A stream of random numbers for what is cut: another one on each rank, beside the global one that all ranks share."""

    def __init__(self, seed: int, group: Group = None) -> None:
        """Begin the stream of (`seed`, rank): no two pairs share one. The global generators are as they were."""
        # region solution rank_random_init
        shared = random_states()
        # With seed + rank, rank 1 of seed 0 would draw what rank 0 of seed 1 draws; and of a larger combination torch's CPU generator
        # keeps the low 32 bits. So the pair is hashed.
        mixed = hashlib.sha256(f"{seed} {dist.get_rank(group)}".encode()).digest()
        torch.manual_seed(int.from_bytes(mixed[:7], "little"))  # seeds the GPU's generator as well
        self.states = random_states()
        restore_random_states(shared)
        # endregion

    @contextlib.contextmanager
    def fork(self) -> Iterator[None]:
        """Inside, torch's global generators are this stream, where the last fork left it; afterwards, also by an exception, as before."""
        # region solution rank_random_fork
        shared = random_states()
        restore_random_states(self.states)
        try:
            yield
        finally:
            self.states = random_states()
            restore_random_states(shared)
        # endregion


class RankDropout(nn.Dropout):
    """Dropout that draws from the RankRandom which is put into it."""

    random: RankRandom

    def forward(self, x: Tensor) -> Tensor:
        """Return x with some numbers dropped, others on each rank."""
        # region solution rank_dropout
        with self.random.fork():
            return super().forward(x)
        # endregion


# --- tasks model and sequence ----------------------------------------------------------------------------------------
def parallelize(gpt: GPT, group: Group = None, *, sequence_parallel: bool = False, seed: int = 0) -> GPT:
    """Cut `gpt` in place and return it. Weights are those that it has; names of parameters stay.

    With targets it returns the mean loss, without them this rank's logits (B, T, P). ValueError, with gpt as it was, where N doesn't
    divide num_kv_heads or mlp_size. sequence_parallel: the residual stream is cut along T, and dropouts draw from RankRandom(seed).
    """
    # region solution parallelize
    config, world_size = gpt.config, dist.get_world_size(group)
    for name in ("num_kv_heads", "mlp_size"):
        if getattr(config, name) % world_size:
            raise ValueError(f"{name} {getattr(config, name)} is not divisible by the {world_size} tensor-parallel ranks")

    column = functools.partial(ColumnParallelLinear, group=group, sequence_parallel=sequence_parallel)
    row = functools.partial(RowParallelLinear, group=group, sequence_parallel=sequence_parallel)
    enter = all_gather_sequence if sequence_parallel else copy_to_tensor_parallel
    for block in gpt.blocks:
        # qkv's rows are laid out group by group, so a contiguous slice is a complete attention with fewer heads: no communication inside.
        block.attention.qkv, block.attention.out = column(block.attention.qkv), row(block.attention.out)
        block.mlp.up, block.mlp.down = column(block.mlp.up), row(block.mlp.down)
        if block.mlp.gate is not None:
            # gate and up are cut at the same places, so their product is local. They share an input, and f stands once before both:
            # behind two f's the same gradient would be summed over the ranks in two halves.
            block.mlp.gate = column(block.mlp.gate)
            block.mlp.gate.is_entered = block.mlp.up.is_entered = True
            block.mlp.register_forward_pre_hook(lambda _, inputs: enter(inputs[0], group))

    head = column(gpt.head, pad=True)
    gpt.token_embedding = VocabParallelEmbedding(gpt.token_embedding, group, sequence_parallel=sequence_parallel)
    if config.tied:
        head.weight = gpt.token_embedding.weight  # cut alike, so they can still be one
    gpt.head = head
    gpt.cross_entropy = functools.partial(vocab_parallel_cross_entropy, group=group, vocab_size=config.vocab_size)
    if sequence_parallel:
        cut_the_stream(gpt, group, RankRandom(seed, group))
    return gpt
    # endregion


def cut_the_stream(gpt: GPT, group: Group, random: RankRandom) -> None:
    """Do what remains where each rank has its own tokens between the cut layers. A helper for yourself."""
    # region solution cut_the_stream
    whole = [module for module in gpt.modules() if isinstance(module, nn.LayerNorm | nn.RMSNorm)]
    if gpt.position_embedding is not None:
        gpt.position_embedding.register_forward_pre_hook(lambda _, inputs: (own_part(inputs[0], 0, group),))
        whole.append(gpt.position_embedding)
    # These weights are whole on every rank and see some tokens only. The hook runs once per backward, before the sum reaches grad.
    for parameter in nn.ModuleList(whole).parameters():
        parameter.register_hook(lambda gradient: summed(gradient, group))
    # Other tokens on each rank: with one mask for all, tokens T/N apart would lose the same channels.
    for module in [gpt, *gpt.blocks]:
        module.dropout = RankDropout(module.dropout.p).train(module.dropout.training)
        module.dropout.random = random
    # endregion


# --- task clipping ---------------------------------------------------------------------------------------------------
def clip_grad_norm_(parameters: Iterable[nn.Parameter], max_norm: float, group: Group = None) -> Tensor:
    """Scale all gradients in place so that their norm over the whole model is at most `max_norm`; return the norm before.

    Parameters marked `is_cut` are parts, the others whole on every rank. A missing gradient counts as zeros. The norm is the same on
    all ranks, and float32 or wider.
    """
    # region solution clip_grad_norm
    parameters = list(parameters)
    with_gradient = [parameter for parameter in parameters if parameter.grad is not None]
    wide = torch.float64 if any(parameter.dtype == torch.float64 for parameter in parameters) else torch.float32
    of_parts = of_wholes = torch.zeros((), dtype=wide, device=parameters[0].device)
    for parameter in with_gradient:
        square = parameter.grad.to(wide).square().sum()
        if getattr(parameter, "is_cut", False):
            of_parts = of_parts + square
        else:
            of_wholes = of_wholes + square
    # Only parts add up over the ranks: what is whole on every rank would count N times.
    norm = (summed(of_parts, group) + of_wholes).sqrt()
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)  # on the device: reading it would make the CPU wait
    for parameter in with_gradient:
        parameter.grad.mul_(scale)
    return norm
    # endregion
