"""Token shards on disk, and the loader that deals them out: memory-mapped, deterministic, sharded by rank, resumable.

A shard is a 64-byte header and num_tokens unsigned little-endian integers of 2 or 4 bytes. Shapes: B batch, T tokens.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

MAGIC = b"LMTOKENS"
HEADER = struct.Struct("<8sIIQ40x")  # magic, bytes per token, vocabulary size, number of tokens


@dataclass(frozen=True)
class Shard:
    """One file of tokens, mapped: opening a shard of any size costs nothing until its tokens are read."""

    path: Path
    vocab_size: int
    tokens: npt.NDArray[np.unsignedinteger]

    @classmethod
    def open(cls, path: Path) -> Shard:
        """Map `path`; ValueError if it isn't a whole shard."""
        with path.open("rb") as file:
            header = file.read(HEADER.size)
        if len(header) < HEADER.size or not header.startswith(MAGIC):
            raise ValueError(f"{path} is not a token shard: it starts with {header[:8]!r}, not {MAGIC!r}. `make data` writes shards")
        _, token_bytes, vocab_size, num_tokens = HEADER.unpack(header)
        expected_bytes = HEADER.size + token_bytes * num_tokens
        if path.stat().st_size != expected_bytes:
            raise ValueError(
                f"{path} has {path.stat().st_size} bytes, its header promises {expected_bytes}: delete it and prepare it again"
            )
        tokens = np.memmap(path, dtype=f"<u{token_bytes}", mode="r", offset=HEADER.size, shape=(num_tokens,))
        return cls(path, vocab_size, tokens)


def write_shard(path: Path, tokens: npt.ArrayLike, vocab_size: int) -> None:
    """Write `tokens` (each below vocab_size) as one shard; the file appears whole or not at all."""
    token_bytes = 2 if vocab_size <= 2**16 else 4
    array = np.asarray(tokens)
    if array.size == 0 or array.max() >= vocab_size or array.min() < 0:
        raise ValueError(f"a shard needs at least one token, and every token must lie in 0 … {vocab_size - 1}")
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        file.write(HEADER.pack(MAGIC, token_bytes, vocab_size, array.size))
        file.write(array.astype(f"<u{token_bytes}").tobytes())
    os.replace(partial, path)


class TokenLoader:
    """Deals windows of T tokens in an order that depends on the seed only, B to each rank at a time.

    Every epoch is a new permutation of all windows, and epochs follow each other without a gap: one endless stream. Step s takes the
    next world_size · B windows of it, rank r the r-th B of those. So one integer, `position`, says where training stands, for every rank
    and for any later world size.
    """

    def __init__(
        self, shards: Sequence[Shard], *, batch_size: int, num_tokens: int, rank: int = 0, world_size: int = 1, seed: int = 0
    ) -> None:
        self.shards, self.batch_size, self.num_tokens = list(shards), batch_size, num_tokens
        self.rank, self.world_size, self.seed = rank, world_size, seed
        # A window's last target lies one token beyond it, hence the −1. No window crosses two shards.
        windows_per_shard = [(len(shard.tokens) - 1) // num_tokens for shard in self.shards]
        self.first_window = np.cumsum([0, *windows_per_shard])
        self.num_windows = int(self.first_window[-1])
        if self.num_windows == 0:
            longest = max((len(shard.tokens) for shard in self.shards), default=0)
            raise ValueError(f"no shard holds one window of {num_tokens} + 1 tokens; the longest has {longest}. Shorten the sequence")
        self.position = 0  # windows dealt so far, to all ranks together
        self.epoch, self.order = -1, np.empty(0, dtype=np.int64)

    def window(self, stream_position: int) -> npt.NDArray[np.int64]:
        """Return the T + 1 tokens of one window of the stream: inputs and, shifted by one, targets."""
        epoch, place = divmod(stream_position, self.num_windows)
        if epoch != self.epoch:
            self.epoch, self.order = epoch, np.random.default_rng((self.seed, epoch)).permutation(self.num_windows)
        window = self.order[place]
        shard = int(np.searchsorted(self.first_window, window, side="right")) - 1
        start = int(window - self.first_window[shard]) * self.num_tokens
        return self.shards[shard].tokens[start : start + self.num_tokens + 1].astype(np.int64)

    def next_batch(self) -> tuple[Tensor, Tensor]:
        """Return this rank's next (tokens_BT, targets_BT), int64 on the CPU."""
        start = self.position + self.rank * self.batch_size
        windows = torch.from_numpy(np.stack([self.window(start + i) for i in range(self.batch_size)]))
        self.position += self.world_size * self.batch_size
        return windows[:, :-1], windows[:, 1:]

    def state_dict(self) -> dict[str, int]:
        """Return where the stream stands; equal on all ranks."""
        return {"position": self.position, "seed": self.seed, "num_windows": self.num_windows}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue where state_dict stood; ValueError if the stream is another one."""
        here = self.state_dict()
        for name in ("seed", "num_windows"):
            if state[name] != here[name]:
                raise ValueError(f"the saved position belongs to a stream with {name} {state[name]}, this one has {here[name]}")
        self.position = state["position"]
