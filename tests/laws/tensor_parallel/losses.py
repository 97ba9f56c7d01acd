"""The loss of a cut vocabulary: against log-softmax of the whole logits in numpy, in fp64."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from grader.numerics import Hints, assert_close, assert_equal, unit_roundoff
from grader.records import ITEMSIZE, Limits, MiB
from tests.laws.groups import groups_of
from tests.laws.tensor_parallel.carrying import all_reduced, judge_carried, judge_clean
from tests.laws.tensor_parallel.functions import Array, part_of

IGNORED = -100
PADDING = 11.0  # what stands in columns beyond the vocabulary: larger than any logit that is drawn, so that it would win the softmax
# Roundings of a sum's neighbours: the difference from the maximum, exponential, quotient, logarithm, product with the scale, mean.
ROUNDINGS = 16
NEARLY_LOWEST = -9000  # logits below it are those of `draw_logits`' "large"
SMALLEST = {"float16": 2.0**-25, "bfloat16": 0.0}  # half the spacing of float16's subnormals, among which small gradients fall
UNDERFLOW = 2.0**-120  # smaller exponentials may become zero in float32
ROOM = 7  # tensors of the size of a rank's logits: the logits and six beside them
LARGE = {"num_tokens": 256, "num_columns": 4096}  # 4 MiB on each of four ranks, 16 MiB together
SLACK_BYTES = 2 * MiB  # what an allocator rounds up


def draw_logits(rng: np.random.Generator, tokens: tuple[int, ...], vocab_size: int, how: str) -> Array:
    """Logits of some size; "large": up to 10000 of either sign, and one row where all are -10000 but one."""
    logits = rng.standard_normal((*tokens, vocab_size)) * 3
    if how == "large":
        logits = np.sign(logits) * np.exp(rng.uniform(0, math.log(1e4), logits.shape))
        rows = logits.reshape(-1, vocab_size)
        rows[0], rows[1], rows[2] = -1e4, 1e4, rng.uniform(-1e4, -9998, vocab_size)
        rows[0, vocab_size - 1] = 9e3
    return logits


def run_loss(
    observe: Any, world_size: int, vocab_size: int, *, tokens: tuple[int, ...] = (2, 9), dtype: str = "float32", how: str = "plain",
    ignored: str = "none", ignore_index: int | None = None, scale: float = 1.0, groups: list[list[int]] | None = None, **case: Any,
) -> Any:  # fmt: skip
    """The loss of each group's logits. ignored: "none", "some" or "all" of the targets."""
    teams = groups or [list(range(world_size))]
    n = len(teams[0])
    num_rows = -(-vocab_size // n)
    mark = IGNORED if ignore_index is None else ignore_index

    def inputs(rng: np.random.Generator) -> dict[str, Any]:
        drawn: dict[str, Any] = {"logits": [np.zeros(0)] * world_size, "targets": [np.zeros(0)] * world_size}
        for members in teams:
            logits = np.full((*tokens, num_rows * n), PADDING)
            logits[..., :vocab_size] = draw_logits(rng, tokens, vocab_size, how)
            logits = logits.astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))
            targets = rng.permutation(np.arange(math.prod(tokens)) % vocab_size).reshape(tokens).astype(np.int64)
            if ignored != "none":
                targets[rng.random(tokens) < (0.4 if ignored == "some" else 1.1)] = mark
                targets.reshape(-1)[0] = mark
            for place, rank in enumerate(members):
                drawn["logits"][rank], drawn["targets"][rank] = part_of(logits, -1, place, n), targets
        return drawn

    loss = "float64" if dtype == "float64" else "float32"
    shape = (*tokens, num_rows)
    returns = {"loss": (loss, ()), "dlogits": (dtype, shape), "logits after": (dtype, shape), "targets after": ("int64", tokens)}
    words: dict[str, Any] = {"groups": groups} if groups else {}
    words |= ({} if ignore_index is None else {"ignore_index": ignore_index}) | ({} if scale == 1 else {"scale": scale})
    return observe("cross_entropy", world_size=world_size, inputs=inputs, returns=returns, vocab_size=vocab_size, **words, **case)


def softmax_parts(logits: Array) -> tuple[Array, Array, Array]:
    """-> (softmax, log of its denominator relative to the maximum, logits relative to the maximum)."""
    relative = logits - logits.max(-1, keepdims=True)
    log_sum = np.log(np.exp(relative).sum(-1))
    return np.exp(relative - log_sum[..., None]), log_sum, relative


@dataclass(frozen=True)
class Right:
    """What the loss of one group's logits is, with what rounding may do to it; of the real columns."""

    loss: Array
    loss_allowed: float
    gradient: Array
    gradient_allowed: Array
    other_gradients: dict[str, Array]  # wrong ones
    share: float  # of the targets that count
    others: dict[str, Array]  # wrong losses


def right_of(seen: Any, members: list[int]) -> Right:
    """Loss and gradient of the whole logits in fp64."""
    case = seen.request.parameters
    n, vocab_size = len(members), case["vocab_size"]
    padded = np.concatenate([seen.input("logits", rank).astype(np.float64) for rank in members], -1)
    logits = padded[..., :vocab_size]
    targets = seen.input("targets", members[0])
    counted = targets != case.get("ignore_index", IGNORED)
    count = max(int(counted.sum()), 1)
    softmax, log_sum, relative = softmax_parts(logits)
    row = np.where(counted, targets, 0)
    one_hot, score = np.eye(vocab_size)[row], np.take_along_axis(relative, row[..., None], -1)[..., 0]
    u = unit_roundoff(seen.request.return_of("loss", 0).dtype)
    # A term of the sum is off by as many roundings as it has digits before the point (|z - m|), the sum by one for each term.
    each_u = u * (vocab_size + n + ROUNDINGS + 4 * np.abs(score) + np.sum(softmax * np.abs(relative), -1) * 4)
    losses = np.where(counted, log_sum - score, 0)
    loss = losses.sum() / count if counted.any() else np.asarray(np.nan)
    scale = np.where(counted, case.get("scale", 1.0) / count, 0)[..., None]
    allowed = np.abs(scale) * ((softmax + one_hot) * each_u[..., None] + 4 * u * softmax * np.abs(relative) + UNDERFLOW)
    return Right(
        loss=np.asarray(loss),
        loss_allowed=(np.where(counted, each_u, 0).sum() + counted.size * u * np.abs(losses).sum()) / count,
        gradient=(softmax - one_hot) * scale,
        gradient_allowed=allowed,
        other_gradients={
            OWN: (own_softmaxes(logits, n) - one_hot) * scale,
            "the softmax, from which nothing is subtracted at a target": softmax * scale,
            "that in which ignored targets count, too": (softmax - one_hot * counted[..., None]) * np.max(scale, initial=0),
            "one less in the first column of a rank that the target is not in": (softmax - elsewhere(one_hot, n)) * scale,
        },
        share=float(counted.mean()) or 1.0,
        others=suspects(losses, counted, log_sum, loss)
        | of_own_columns(logits, row, n, score, counted, loss)
        | as_words(loss, targets, log_sum, relative)
        | with_padding(padded, vocab_size, log_sum, counted, loss),
    )


def judge_loss(seen: Any) -> None:
    """The loss and the gradient on every rank."""
    case = seen.request.parameters
    for members in groups_of(seen):
        n, right = len(members), right_of(seen, members)
        words = f"vocab_parallel_cross_entropy, {case['vocab_size']} words on {n} ranks"
        factors = {"the share of counted targets": right.share, "scale": case.get("scale", 1.0)}
        for place, rank in enumerate(members):
            suggestion = "The mean over no targets is NaN, as torch has it." if np.isnan(right.loss) else LOSS_SUGGESTION
            if seen.request.return_of("dlogits", rank).dtype in ("bfloat16", "float16"):
                suggestion = "The sums of 16-bit logits are taken in float32, and the loss is float32."
            hints = Hints(world_size=n, others=right.others, suggestion=suggestion, factors=factors)
            got, what = seen.rank(rank), f"{words}: the loss on rank {rank}"
            is_low = any(seen.input("logits", member).astype(np.float64).min() < NEARLY_LOWEST for member in members)
            lowest = " Some rows have no logit above -9998: is what stands for minus infinity below all of them?" if is_low else ""
            assert_close(got["loss"], right.loss, allowed=right.loss_allowed, what=what, hints=hints)
            if np.isnan(right.loss):
                continue  # a gradient of nothing but ignored targets is 0 or NaN
            dtype = seen.request.return_of("dlogits", rank).dtype
            value, allowed = (part_of(padded_last(array, n), -1, place, n) for array in (right.gradient, right.gradient_allowed))
            wrong = {words: part_of(padded_last(array, n), -1, place, n) for words, array in right.other_gradients.items() if n > 1}
            allowed = allowed + 2 * unit_roundoff(dtype) * np.abs(value) + SMALLEST.get(dtype, 0.0)
            hints = Hints(world_size=n, factors=factors, others=wrong, suggestion=GRADIENT_SUGGESTION + lowest)
            what = f"{words}: the gradient of the loss by the logits of rank {rank}"
            assert_close(got["dlogits"], value, allowed=allowed, what=what, hints=hints)


LOSS_SUGGESTION = "Which of maximum, sum and target's score is over all ranks, and does padding (or an ignored target) take part in any?"
GRADIENT_SUGGESTION = "softmax over all ranks' real columns, minus 1 at a target that is this rank's, times gradient / counted targets."
OWN = "that of a softmax over this rank's columns alone"


def padded_last(array: Array, n: int) -> Array:
    """With zeros at the end of the last dim, up to a multiple of n."""
    return np.concatenate([array, np.zeros((*array.shape[:-1], -array.shape[-1] % n))], -1)


def own_softmaxes(logits: Array, n: int) -> Array:
    """A wrong answer: softmax of each rank's columns alone."""
    num_rows = -(-logits.shape[-1] // n)
    pieces = [logits[..., r * num_rows : (r + 1) * num_rows] for r in range(n)]
    return np.concatenate([softmax_parts(piece)[0] if piece.size else piece for piece in pieces], -1)


def elsewhere(one_hot: Array, n: int) -> Array:
    """The one-hot rows, and a one in the first column of every rank that has none in a row."""
    pieces = np.split(padded_last(one_hot, n), n, -1)
    firsts = [np.eye(piece.shape[-1])[0] * (piece.max(-1, keepdims=True) == 0) for piece in pieces]
    return np.concatenate([piece + first for piece, first in zip(pieces, firsts, strict=True)], -1)[..., : one_hot.shape[-1]]


def with_padding(padded: Array, vocab_size: int, log_sum: Array, counted: Array, loss: Any) -> dict[str, Array]:
    """Losses in which the columns beyond the vocabulary take part, as they stand or as zeros."""
    found = {}
    for words, filling in (("as it stands", padded[..., vocab_size:]), ("as zeros", 0.0 * padded[..., vocab_size:])):
        columns = np.concatenate([padded[..., :vocab_size], filling], -1)
        more = columns.max(-1) + softmax_parts(columns)[1] - padded[..., :vocab_size].max(-1) - log_sum
        if filling.size and counted.any() and not np.isclose(more[counted].mean(), 0):
            found[f"that in which padding takes part in the softmax, {words}"] = np.asarray(loss + more[counted].mean())
    return found


def of_own_columns(logits: Array, row: Array, n: int, score: Array, counted: Array, loss: Any) -> dict[str, Array]:
    """Losses whose denominator is that of one rank's columns, or a sum of parts that are relative to other maxima."""
    if not counted.any():
        return {}
    num_rows, largest = -(-logits.shape[-1] // n), logits.max(-1)
    pieces = [logits[..., start : start + num_rows] for start in range(0, logits.shape[-1], num_rows)]
    log_sums, tops = np.stack([softmax_parts(piece)[1] for piece in pieces]), np.stack([piece.max(-1) for piece in pieces])
    found = {f"that with the denominator of rank {r}'s columns alone": log_sums[r] + tops[r] - largest - score for r in range(len(pieces))}
    own_top = np.take_along_axis(tops, (row // num_rows)[None], 0)[0]
    own_score = score + largest - own_top
    found["that in which each rank subtracts the maximum of its own columns"] = np.log(np.exp(log_sums).sum(0)) - own_score
    means = {words: np.asarray(value[counted].mean()) for words, value in found.items()}
    return {words: value for words, value in means.items() if not np.isclose(value, loss)}


def as_words(loss: Any, targets: Array, log_sum: Array, relative: Array) -> dict[str, Array]:
    """The loss of one who counts every target, where ignore_index is a word's number, too."""
    if targets.min() < 0:
        return {}
    every = np.mean(log_sum - np.take_along_axis(relative, targets[..., None], -1)[..., 0])
    return {} if np.isclose(every, loss) else {"the mean over all targets, with those at ignore_index counted as words": every}


def suspects(losses: Array, counted: Array, log_sum: Array, loss: Any) -> dict[str, Array]:
    """Other losses that somebody might have taken for the mean."""
    found = {"the sum over the targets, not their mean": losses.sum(), "the mean over all targets, the ignored ones too": losses.mean(),
             "the loss without the targets' scores": np.where(counted, log_sum, 0).sum() / max(counted.sum(), 1)}  # fmt: skip
    return {words: np.asarray(value) for words, value in found.items() if not np.isclose(value, loss)}


def judge_inputs(seen: Any) -> None:
    """Logits and targets are as they were."""
    for rank in range(seen.world_size):
        for name in ("logits", "targets"):
            hints = Hints(suggestion="Take a new tensor where something is masked or subtracted.")
            after = seen.rank(rank)[f"{name} after"]
            assert_equal(after, seen.input(name, rank), what=f"the {name} of rank {rank} afterwards", hints=hints)


def judge_loss_volume(seen: Any) -> None:
    """One to four all-reduces of a number per token forward, nothing backward, in the dtype of the loss."""
    n = len(groups_of(seen)[0])
    dtype = seen.request.return_of("loss", 0).dtype
    once = all_reduced(math.prod(seen.input("targets", 0).shape) * ITEMSIZE[dtype], n)
    suggestion = "The logits themselves must not travel: only a maximum, a sum and the target's score of each token."
    why = "one to four all-reduces of one number per token"
    judge_carried(seen, "forward", least=once, most=4 * once, why=why, suggestion=suggestion)
    judge_carried(seen, "backward", least=0, most=0, why="for each rank knows all that its own columns need")
    judge_clean(seen, ["forward"], dtype)


# --- large logits ----------------------------------------------------------------------------------------------------
def run_large(observe: Any, **case: Any) -> Any:
    """Logits of 4 MiB on each of four ranks, with room for seven such tensors."""
    num_bytes = LARGE["num_tokens"] * LARGE["num_columns"] * 4
    returns = {"loss": ("float32", ()), "some": ("float32", (LARGE["num_tokens"], 16)), "sums": ("float32", (LARGE["num_tokens"],))}
    limits = Limits(extra_bytes=ROOM * num_bytes + SLACK_BYTES)
    return observe("large_logits", world_size=4, returns=returns, limits=limits, **LARGE, **case)


def judge_large(seen: Any) -> None:
    """The loss, and the gradients' first columns and sums."""
    num_tokens, num_columns = LARGE["num_tokens"], LARGE["num_columns"]
    vocab_size = num_columns * seen.world_size
    token = np.arange(num_tokens)
    softmax, log_sum, relative = softmax_parts((3 * token[:, None] + 7 * np.arange(vocab_size)) % 64 / 16)
    targets = token * 37 % vocab_size
    loss = np.mean(log_sum - relative[token, targets])
    softmax[token, targets] -= 1
    gradient = softmax / num_tokens
    u = unit_roundoff("float32") * (vocab_size + num_tokens)
    for rank in range(seen.world_size):
        first = rank * num_columns
        got, own = seen.rank(rank), gradient[:, first : first + num_columns]
        assert_close(got["loss"], np.asarray(loss), allowed=u * loss, what=f"the loss on rank {rank}")
        assert_close(got["some"], own[:, :16], allowed=u / num_tokens, what=f"the gradient of rank {rank}'s first columns")
        assert_close(got["sums"], own.sum(1), allowed=2 * u / num_tokens, what=f"the sums of rank {rank}'s gradients")
