"""The race of full sharding: every matrix is a unit, of which each rank has an N-th of the rows, and gets an N-th of the mean gradient."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from grader.worker.racing_blocks import Track


class step(Track):
    """Shards come with each call, and no rank knows another's: who wants whole weights must gather them, in every call anew."""

    def cut(self, name: str) -> tuple[int, int]:
        """An N-th of the rows."""
        rows, columns = self.whole(name)
        return rows // self.world_size, columns

    def joined(self, name: str, parts: Sequence[Tensor]) -> Tensor:
        """Rows after rows."""
        return torch.cat(list(parts))

    def rows_of_whole(self, places: dict[str, Tensor]) -> dict[str, Tensor]:
        """Behind those of the ranks before."""
        return {name: places[name] + self.rank * self.cut(name)[0] for name in ("up", "down")}

    @property
    def sent_bytes(self) -> float:
        """A gather of the weights and a scatter of the gradients at least: they may be gathered once, but for memory."""
        return 2 * (self.world_size - 1) / self.world_size * self.weight_bytes
