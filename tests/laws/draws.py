"""What torch's generator on the CPU gives after a seed, computed without torch."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def draws_after(seed: int, count: int, *, num_words: int = 0) -> Array:
    """What torch.rand(count, dtype=torch.float64) gives after torch.manual_seed(seed) and `num_words` numbers in float32.

    The generator is the Mersenne twister, MT19937, seeded by 32 bits. A double is the lower 53 of the 64 bits of two of its words, the
    first word on top; a float takes one word (ATen/core/TransformationHelper.h).
    """
    words = np.random.RandomState(seed).randint(0, 2**32, num_words + 2 * count, dtype=np.uint64)[num_words:]
    bits = (words[0::2] << np.uint64(32) | words[1::2]) & np.uint64(2**53 - 1)
    return bits.astype(np.float64) / 2.0**53
