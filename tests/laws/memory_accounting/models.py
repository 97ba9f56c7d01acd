"""The models that the laws ask about: sizes drawn anew for every submission, options fixed by the case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Options = dict[str, Any]

PLAIN: Options = {"positions": "learned", "norm": "layernorm", "activation": "gelu", "bias": True, "tied": True, "attention": "dense"}


def plain_but(**changes: Any) -> Options:
    """A GPT-2's options, but for these."""
    return PLAIN | changes


@dataclass(frozen=True)
class Model:
    """What a GPTConfig says, without its package: the judge's process imports no torch."""

    vocab_size: int
    max_tokens: int
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    mlp_size: int
    positions: str = "learned"
    norm: str = "layernorm"
    activation: str = "gelu"
    bias: bool = True
    tied: bool = True
    attention: str = "dense"

    @property
    def head_dim(self) -> int:
        """Numbers per head."""
        return self.hidden_size // self.num_heads

    def sizes(self) -> list[int]:
        """The row that a probe reads."""
        return [self.vocab_size, self.max_tokens, self.num_layers, self.hidden_size, self.num_heads, self.num_kv_heads, self.mlp_size]

    def __str__(self) -> str:
        """As a student would write it, without what is usual."""
        named = [f"{name}={value}" for name, value in zip(SIZE_NAMES, self.sizes(), strict=True)]
        unusual = [f"{name}={getattr(self, name)!r}" for name, usual in PLAIN.items() if getattr(self, name) != usual]
        return f"GPTConfig({', '.join(named + unusual)})"


SIZE_NAMES = ("vocab_size", "max_tokens", "num_layers", "hidden_size", "num_heads", "num_kv_heads", "mlp_size")


@dataclass(frozen=True)
class Sizes:
    """Sizes of one model; None is drawn. `mlp_per_hidden` and `kv_share` are relative: GPT-2 has 4 and 1."""

    heads: int | None = None
    head_dim: int | None = None
    layers: int | None = None
    vocab: int | None = None
    mlp_per_hidden: float | None = None
    kv_share: int = 1  # query heads per key/value head
    max_tokens: int | None = None

    def draw(self, rng: np.random.Generator) -> list[int]:
        """A row of SIZE_NAMES. Vocabularies are odd and MLPs are not 4C unless the case says so."""
        heads = self.heads or self.kv_share * int(rng.integers(2, 4)) * 2
        hidden = heads * (self.head_dim or 2 * int(rng.integers(3, 9)))
        layers = self.layers or int(rng.integers(2, 4))
        vocab = self.vocab or 2 * int(rng.integers(80, 200)) + 1
        mlp = round(self.mlp_per_hidden * hidden) if self.mlp_per_hidden else 3 * hidden - int(rng.integers(1, hidden // 2))
        return [vocab, self.max_tokens or int(rng.integers(70, 99)), layers, hidden, heads, heads // self.kv_share, mlp]


def drawn(sizes: Sequence[Sizes], **others: Array) -> Callable[[np.random.Generator], dict[str, Array]]:
    """Inputs for `observe`: a row for each model, and what else the probe reads."""
    return lambda rng: {"sizes": np.asarray([each.draw(rng) for each in sizes], np.int64)} | others


def models_of(seen: Any) -> list[Model]:
    """The models that an observation asked about."""
    rows, options = seen.input("sizes", 0).tolist(), seen.request.parameters["options"]
    repeated = options if len(options) == len(rows) else options * len(rows)
    return [Model(*row, **rest) for row, rest in zip(rows, repeated, strict=True)]
