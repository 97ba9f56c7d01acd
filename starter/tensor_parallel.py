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
    raise NotImplementedError("tensor_parallel, task functions: see section 3 of the handout")


def summed(x: Tensor, group: Group) -> Tensor:
    """Return the sum of all ranks' `x` in new memory."""
    raise NotImplementedError("tensor_parallel, task functions: see section 3 of the handout")


def gathered(x: Tensor, dim: int, group: Group) -> Tensor:
    """Return all ranks' `x`, joined along `dim` in the order of the ranks."""
    raise NotImplementedError("tensor_parallel, task functions: see section 3 of the handout")


def summed_part(x: Tensor, dim: int, group: Group) -> Tensor:
    """Return this rank's N-th along `dim` of the sum of all ranks' `x`; ValueError where N doesn't divide it."""
    raise NotImplementedError("tensor_parallel, task functions: see section 3 of the handout")


# --- task functions --------------------------------------------------------------------------------------------------
class CopyToTensorParallel(torch.autograd.Function):
    """Megatron's f: a whole tensor enters the region where each rank computes something else with it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        """Every rank has all of x already."""
        raise NotImplementedError("tensor_parallel, task functions: see section 3 of the handout")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """x was used on every rank, and a gradient is the sum over all uses."""
        raise NotImplementedError("tensor_parallel, task functions: see section 3 of the handout")


class ReduceFromTensorParallel(torch.autograd.Function):
    """Megatron's g: each rank's partial sum leaves the region, and all ranks have the whole sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        """The sum over the ranks."""
        raise NotImplementedError("tensor_parallel, task functions: see section 3 of the handout")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """d(a + b)/da = 1: each addend gets the gradient of the sum, which every rank has already."""
        raise NotImplementedError("tensor_parallel, task functions: see section 3 of the handout")


class ScatterToTensorParallel(torch.autograd.Function):
    """A whole tensor enters the region, and each rank takes its part of the last dim."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        """This rank's part. In memory of its own: a view that an autograd function returns may not be written to."""
        raise NotImplementedError("tensor_parallel, task functions: see section 3 of the handout")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Each rank knows the gradient of its part; all need that of the whole."""
        raise NotImplementedError("tensor_parallel, task functions: see section 3 of the handout")


class GatherFromTensorParallel(torch.autograd.Function):
    """Parts leave the region, and all ranks have the whole, joined along the last dim."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        """All parts, in the order of the ranks."""
        raise NotImplementedError("tensor_parallel, task functions: see section 3 of the handout")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """All ranks computed the same with the whole, so the part of this rank's own gradient is the gradient of its part."""
        raise NotImplementedError("tensor_parallel, task functions: see section 3 of the handout")


class AllGatherSequence(torch.autograd.Function):
    """f with cut tokens: each rank's tokens enter, and every rank computes something else with all of them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group, dim: int) -> Tensor:
        """All tokens."""
        raise NotImplementedError("tensor_parallel, task functions: see section 3 of the handout")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Every rank used every token: the gradients add up, and each rank needs only those of its own tokens."""
        raise NotImplementedError("tensor_parallel, task functions: see section 3 of the handout")


class ReduceScatterSequence(torch.autograd.Function):
    """g with cut tokens: partial sums of all tokens leave, and each rank has the whole sums of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group, dim: int) -> Tensor:
        """The sum over the ranks, this rank's tokens of it."""
        raise NotImplementedError("tensor_parallel, task functions: see section 3 of the handout")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Every rank added to every token, so it needs the gradients of all."""
        raise NotImplementedError("tensor_parallel, task functions: see section 3 of the handout")


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
    raise NotImplementedError("tensor_parallel, task linear: see section 4 of the handout")


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
        raise NotImplementedError("tensor_parallel, task linear: see section 4 of the handout")

    def forward(self, x: Tensor) -> Tensor:
        """Return this rank's outputs (…, out/N), or all of them with gather_output."""
        raise NotImplementedError("tensor_parallel, task linear: see section 4 of the handout")


class RowParallelLinear(nn.Module):
    """A linear layer of which each rank takes an N-th of the inputs (rows of Wᵀ, columns of nn.Linear's weight)."""

    def __init__(self, linear: nn.Linear, group: Group = None, *, input_is_parallel: bool = True, sequence_parallel: bool = False) -> None:
        """Cut `linear`: weight (out, in/N); the bias stays whole; ValueError where N doesn't divide the inputs.

        input_is_parallel: the input is this rank's part already, as a column-parallel layer leaves it; else the whole one, on all ranks.
        sequence_parallel: return this rank's tokens (dim 1) only.
        """
        super().__init__()
        raise NotImplementedError("tensor_parallel, task linear: see section 4 of the handout")

    def forward(self, x: Tensor) -> Tensor:
        """Return the whole sums, the same on all ranks; under sequence parallelism those of this rank's tokens."""
        raise NotImplementedError("tensor_parallel, task linear: see section 4 of the handout")


class VocabParallelEmbedding(nn.Module):
    """An embedding of which each rank holds P = ceil(V / N) rows; the last ones may be padding."""

    def __init__(self, embedding: nn.Embedding, group: Group = None, *, sequence_parallel: bool = False) -> None:
        """Cut `embedding`: weight (P, C), rank r's rows are r·P … r·P + P − 1 of the vocabulary, those beyond it zeros.

        sequence_parallel: return this rank's tokens (dim 1) only.
        """
        super().__init__()
        raise NotImplementedError("tensor_parallel, task vocabulary: see section 5 of the handout")

    def forward(self, tokens: Tensor) -> Tensor:
        """Return (…, C), the same on all ranks; under sequence parallelism that of this rank's tokens. `tokens` is whole."""
        raise NotImplementedError("tensor_parallel, task vocabulary: see section 5 of the handout")


class VocabParallelCrossEntropy(torch.autograd.Function):
    """The mean cross-entropy of logits whose vocabulary is cut. A few numbers per token travel, never a logit that isn't a target."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, group: Group, vocab_size: int, ignore_index: int) -> Tensor:
        """-log softmax at the target = log Σ exp(z - m) - (z_target - m), with m the largest logit of all ranks."""
        raise NotImplementedError("tensor_parallel, task vocabulary: see section 5 of the handout")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        """(softmax - one-hot) / number of targets, each rank for its own columns: nothing needs to travel."""
        raise NotImplementedError("tensor_parallel, task vocabulary: see section 5 of the handout")


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
        raise NotImplementedError("tensor_parallel, task randomness: see section 6 of the handout")

    @contextlib.contextmanager
    def fork(self) -> Iterator[None]:
        """Inside, torch's global generators are this stream, where the last fork left it; afterwards, also by an exception, as before."""
        raise NotImplementedError("tensor_parallel, task randomness: see section 6 of the handout")


class RankDropout(nn.Dropout):
    """Dropout that draws from the RankRandom which is put into it."""

    random: RankRandom

    def forward(self, x: Tensor) -> Tensor:
        """Return x with some numbers dropped, others on each rank."""
        raise NotImplementedError("tensor_parallel, task randomness: see section 6 of the handout")


# --- tasks model and sequence ----------------------------------------------------------------------------------------
def parallelize(gpt: GPT, group: Group = None, *, sequence_parallel: bool = False, seed: int = 0) -> GPT:
    """Cut `gpt` in place and return it. Weights are those that it has; names of parameters stay.

    With targets it returns the mean loss, without them this rank's logits (B, T, P). ValueError, with gpt as it was, where N doesn't
    divide num_kv_heads or mlp_size. sequence_parallel: the residual stream is cut along T, and dropouts draw from RankRandom(seed).
    """
    raise NotImplementedError("tensor_parallel, tasks model and sequence: see sections 7 and 8 of the handout")


def cut_the_stream(gpt: GPT, group: Group, random: RankRandom) -> None:
    """Do what remains where each rank has its own tokens between the cut layers. A helper for yourself."""
    raise NotImplementedError("tensor_parallel, task sequence: see section 8 of the handout")


# --- task clipping ---------------------------------------------------------------------------------------------------
def clip_grad_norm_(parameters: Iterable[nn.Parameter], max_norm: float, group: Group = None) -> Tensor:
    """Scale all gradients in place so that their norm over the whole model is at most `max_norm`; return the norm before.

    Parameters marked `is_cut` are parts, the others whole on every rank. A missing gradient counts as zeros. The norm is the same on
    all ranks, and float32 or wider.
    """
    raise NotImplementedError("tensor_parallel, task clipping: see section 9 of the handout")
