"""The race of tensor parallelism: the same samples on every rank, `up` cut by rows, `down` by columns; y and dx are whole on every rank."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from grader.worker.racing_blocks import Track


class step(Track):
    """Parts come with each call, and no rank knows another's: nobody can compute the whole alone."""

    shared = ("x", "dy")
    means_over_ranks = False

    def cut(self, name: str) -> tuple[int, int]:
        """An N-th of the hidden width."""
        rows, columns = self.whole(name)
        return (rows // self.world_size, columns) if name == "up" else (rows, columns // self.world_size)

    def joined(self, name: str, parts: Sequence[Tensor]) -> Tensor:
        """Along the hidden width."""
        return torch.cat(list(parts), 0 if name == "up" else 1)

    def rows_of_whole(self, places: dict[str, Tensor]) -> dict[str, Tensor]:
        """`up`'s are behind those of the ranks before; `down` has all of its rows."""
        return {"up": places["up"] + self.rank * self.cut("up")[0], "down": places["down"]}

    def columns_of_whole(self) -> slice:
        """Of `down`."""
        part = self.cut("down")[1]
        return slice(self.rank * part, (self.rank + 1) * part)

    @property
    def sent_bytes(self) -> float:
        """A ring sends 2(N-1)/N of y and of dx, if all blocks' partial sums are added up before they travel."""
        return 2 * 2 * (self.world_size - 1) / self.world_size * self.sample_bytes
