"""What a test knows beside the right answer: enough to guess how a wrong one came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Hints:
    """Optional facts; each lets `describe` recognise one more way to be wrong."""

    world_size: int | None = None  # ratios N, 1/N, N²; chunks in another order
    head_dim: int | None = None  # ratios √d, 1/√d
    factors: Mapping[str, float] = field(default_factory=dict)  # other numbers that may be forgotten: {"micro-batches": 4}
    others: Mapping[str, Array] = field(default_factory=dict)  # values that it might be instead: {"rank 0's value": a}
    parts: Mapping[str, Array] = field(default_factory=dict)  # addends that may be missing or counted twice: {"rank 0's part": x}
    untouched: Array | None = None  # what stood there before
    question: str = ""  # what to ask where it is one of `others`, in place of the suggestion
    suggestion: str = ""  # what to try, when nothing better is known

    @property
    def asks(self) -> str:
        """What to ask where it is one of `others`."""
        return self.question or self.suggestion or "Which index, rank or buffer is read here?"
