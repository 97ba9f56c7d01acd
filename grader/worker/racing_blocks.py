"""What races of several ranks train: y = Σ down(gelu(up(x))) over some blocks, all of which read the same x, and what must come out of it.

Blocks beside each other, not behind each other: rows of y, of the gradient of x and of each weight's then follow from x, dy and the weights
by a few small products, in float64 on any device, while forward, backward and the order of the gradients are those of a deep model.
Everything is float32 with products in full precision: who computes or sends less shows.
A track (`grader.worker.keeper`) is a subclass of Track that says how the weights are cut and what a rank must send.
"""

# N ranks, r this one; L blocks, B samples of a rank, D their width, F hidden width
from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Views = dict[str, Tensor]
NUM_ROWS_LOOKED_AT = 32
ITEM_BYTES = 4


class Block(nn.Module):
    """Two matrices."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)

    def forward(self, x_BD: Tensor) -> Tensor:
        """down(gelu(up(x)))."""
        return self.down(F.gelu(self.up(x_BD)))


class Blocks(nn.Module):
    """Their sum."""

    def __init__(self, blocks: int, width: int, hidden: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, hidden) for _ in range(blocks))

    def forward(self, x_BD: Tensor) -> Tensor:
        """All read the same x."""
        y_BD = self.blocks[0](x_BD)
        for block in self.blocks[1:]:
            y_BD = y_BD + block(x_BD)
        return y_BD


class Track:
    """y, the gradient of x, and the gradients of the weights that this rank has: `up` and `down`, block by block."""

    shared: tuple[str, ...] = ()
    means_over_ranks = True  # a weight's gradient is the mean of all ranks'; else x is the same on all ranks, and nothing is added up
    precision = "float32"
    most_calls = 4

    def __init__(self, device: torch.device, blocks: int, batch: int, width: int, hidden: int, rank: int, world_size: int) -> None:
        self.device, self.rank, self.world_size = device, rank, world_size
        self._blocks, self._batch, self._width, self._hidden = blocks, batch, width, hidden
        weights = {"up": ("float32", (blocks, *self.cut("up"))), "down": ("float32", (blocks, *self.cut("down")))}
        samples = ("float32", (batch, width))
        self.inputs = {"x": samples, "dy": samples} | weights
        self.outputs = {"y": samples, "dx": samples} | {f"d{name}": spec for name, spec in weights.items()}
        self.weight_bytes = ITEM_BYTES * 2 * blocks * width * hidden  # of the whole model
        self.sample_bytes = ITEM_BYTES * batch * width
        self.moved_bytes = 2 * ITEM_BYTES * blocks * sum(rows * columns for rows, columns in (self.cut("up"), self.cut("down")))
        self.flops = 6.0 * batch * self.weight_bytes / ITEM_BYTES / (1 if self.means_over_ranks else world_size)

    @property
    def sent_bytes(self) -> float:
        """By one rank in a call, at least."""
        raise NotImplementedError

    def whole(self, name: str) -> tuple[int, int]:
        """Rows and columns of a matrix of that name."""
        return (self._hidden, self._width) if name == "up" else (self._width, self._hidden)

    def cut(self, name: str) -> tuple[int, int]:
        """Of this rank's part of it."""
        return self.whole(name)

    def joined(self, name: str, parts: Sequence[Tensor]) -> Tensor:
        """The whole matrix of all ranks' parts."""
        return parts[0]

    def fill(self, inputs: Views, generator: torch.Generator) -> None:
        """Standard normal samples, and weights that keep their spread."""
        for name, tensor in inputs.items():
            tensor.normal_(generator=generator)
            if name in ("up", "down"):
                tensor.mul_(self.whole(name)[1] ** -0.5)

    def places(self, generator: torch.Generator) -> dict[str, Tensor]:
        """Some samples, and some rows of this rank's gradients of one block."""
        extents = {"samples": self._batch, "up": self.cut("up")[0], "down": self.cut("down")[0]}
        drawn = {name: torch.randint(extent, (NUM_ROWS_LOOKED_AT,), generator=generator) for name, extent in extents.items()}
        drawn["block"] = torch.randint(self._blocks, (), generator=generator)
        return {name: where.to(self.device) for name, where in drawn.items()}

    def taken(self, outputs: Views, places: dict[str, Tensor]) -> Views:
        """Copies of these."""
        block = int(places["block"])
        return {
            "y": outputs["y"][places["samples"]],
            "dx": outputs["dx"][places["samples"]],
            "dup": outputs["dup"][block][places["up"]],
            "ddown": outputs["ddown"][block][places["down"]],
        }

    def exact(self, inputs: Sequence[Views], places: dict[str, Tensor]) -> Views:
        """In float64."""
        return self._computed(inputs, places, torch.float64)

    def plain(self, inputs: Sequence[Views], places: dict[str, Tensor]) -> Views:
        """In float32."""
        return self._computed(inputs, places, torch.float32)

    def _computed(self, inputs: Sequence[Views], places: dict[str, Tensor], dtype: torch.dtype) -> Views:
        mine, block, rows = inputs[self.rank], int(places["block"]), self.rows_of_whole(places)
        x_RD = mine["x"][places["samples"]].to(dtype).requires_grad_()
        with torch.enable_grad():
            y_RD = sum(self._through(x_RD, *self._weights(inputs, each, dtype)) for each in range(self._blocks))
        assert isinstance(y_RD, Tensor)
        (dx_RD,) = torch.autograd.grad(y_RD, x_RD, mine["dy"][places["samples"]].to(dtype))
        up_FD, down_DF = self._weights(inputs, block, dtype)
        learnt = inputs if self.means_over_ranks else [mine]
        dup, ddown = torch.zeros((), dtype=dtype, device=self.device), torch.zeros((), dtype=dtype, device=self.device)
        for each in learnt:
            x_BD, dy_BD = each["x"].to(dtype), each["dy"].to(dtype)
            some_RD = up_FD[rows["up"]].requires_grad_()
            with torch.enable_grad():
                through_BD = self._through(x_BD, some_RD, down_DF[:, rows["up"]])
            dup = dup + torch.autograd.grad(through_BD, some_RD, dy_BD)[0] / len(learnt)
            hidden_BF = F.gelu(x_BD @ up_FD[self.columns_of_whole()].mT)
            ddown = ddown + dy_BD[:, rows["down"]].mT @ hidden_BF / len(learnt)
        return {"y": y_RD.detach(), "dx": dx_RD, "dup": dup, "ddown": ddown}

    def rows_of_whole(self, places: dict[str, Tensor]) -> dict[str, Tensor]:
        """Where this rank's rows are in the whole matrices."""
        return places

    def columns_of_whole(self) -> slice:
        """Which of `down`'s columns this rank has."""
        return slice(None)

    @staticmethod
    def _through(x_BD: Tensor, up_FD: Tensor, down_DF: Tensor) -> Tensor:
        return F.gelu(x_BD @ up_FD.mT) @ down_DF.mT

    def _weights(self, inputs: Sequence[Views], block: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        up_FD, down_DF = (self.joined(name, [each[name][block] for each in inputs]).to(dtype) for name in ("up", "down"))
        return up_FD, down_DF
