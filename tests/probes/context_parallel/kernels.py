"""The kernel that is handed in is the probe's own. Every call of it is marked in the trace."""

from __future__ import annotations

import math
from typing import Any

import torch

HIDDEN_FROM = 100.0  # keys whose first number is larger are hidden by a kernel that hides


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
