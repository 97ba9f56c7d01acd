"""What the papers say of the schedules, as exact fractions. Bubbles here are idle time over *total* time.

Sources: GPipe, (K-1)/(M+K-1) of the total (Huang et al. 2019, section 2.3). 1F1B with a flush, (p-1)/m of the ideal time, and
interleaved, (1/v)(p-1)/m (Narayanan et al. 2021, section 2.2). ZB-H1, idle (p-1)(T_F + T_B - T_W) and p micro-batches in memory (Qi et
al. 2023, table 2). A share x of the ideal time is x / (1 + x) of the total.
"""

from __future__ import annotations

from fractions import Fraction

from grader.schedules.simulate import Seconds

GPIPE, ONE_F_ONE_B, INTERLEAVED, ZB_H1 = "gpipe", "1f1b", "interleaved", "zb-h1"


def published_bubble(name: str, num_ranks: int, num_micro_batches: int, chunks: int = 1, **seconds: Seconds) -> Fraction:
    """Idle over total with the same costs on all stages. ZB-H1 depends on `seconds` F, I and W (1 each if not said)."""
    if name in (GPIPE, ONE_F_ONE_B, INTERLEAVED):
        of_ideal = Fraction(num_ranks - 1, num_micro_batches * (chunks if name == INTERLEAVED else 1))
    elif name == ZB_H1:
        forward, inputs, weights = (Fraction(seconds.get(kind, 1)) for kind in "FIW")
        of_ideal = (num_ranks - 1) * (forward + inputs - weights) / (num_micro_batches * (forward + inputs + weights))
    else:
        raise ValueError(f"no published bubble of {name!r}")
    return of_ideal / (1 + of_ideal)


def published_depth(name: str, rank: int, num_ranks: int, num_micro_batches: int, chunks: int = 1) -> int:
    """How many (stage, micro-batch) are in flight on `rank` at most; of the interleaved one, Megatron-LM's warm-up and one more."""
    most = num_micro_batches * chunks
    match name:
        case "gpipe":
            return most
        case "1f1b":
            return min(most, num_ranks - rank)
        case "interleaved":
            return min(most, 2 * (num_ranks - 1 - rank) + (chunks - 1) * num_ranks + 1)
        case "zb-h1":
            return min(most, num_ranks)
    raise ValueError(f"no published depth of {name!r}")
