"""The races of fused operations: what a call gets, and whether rows of what it left are right. The submission never meets this file."""

# N rows, D or V columns
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

NUM_ROWS_LOOKED_AT = 64
CHUNK_ROWS = 512  # of logits in float32 at a time


class _Rows:
    """y, row by row, of x and a parameter that all rows share. Float16, so that Turing takes part."""

    parameter = ""

    def __init__(self, device: torch.device, rows: int, columns: int, dtype: str = "float16") -> None:
        self.device, self.precision, self._num_rows = device, dtype, rows
        self.inputs = {"x": (dtype, (rows, columns)), self.parameter: (dtype, (columns,))}
        self.outputs = {"y": (dtype, (rows, columns))}
        item_bytes = torch.finfo(getattr(torch, dtype)).bits // 8
        self.moved_bytes, self.flops = 2 * rows * columns * item_bytes, 0.0

    def fill(self, inputs: dict[str, Tensor], generator: torch.Generator) -> None:
        """Standard normal numbers."""
        for tensor in inputs.values():
            tensor.normal_(generator=generator)

    def places(self, generator: torch.Generator) -> Tensor:
        """Some rows."""
        return torch.randint(self._num_rows, (NUM_ROWS_LOOKED_AT,), generator=generator).to(self.device)

    def taken(self, outputs: dict[str, Tensor], places: Tensor) -> dict[str, Tensor]:
        """Copies of these rows."""
        return {"y": outputs["y"][places]}

    def exact(self, inputs: dict[str, Tensor], places: Tensor) -> dict[str, Tensor]:
        """In float64."""
        return {"y": self.formula(inputs["x"][places].double(), inputs[self.parameter].double())}

    def plain(self, inputs: dict[str, Tensor], places: Tensor) -> dict[str, Tensor]:
        """In float32, rounded once."""
        x = inputs["x"][places]
        return {"y": self.formula(x.float(), inputs[self.parameter].float()).to(x.dtype)}

    @staticmethod
    def formula(x: Tensor, parameter: Tensor) -> Tensor:
        """What y is."""
        raise NotImplementedError


class rms_norm(_Rows):
    """x / sqrt(mean(x²) + eps) · weight."""

    parameter = "weight"

    @staticmethod
    def formula(x: Tensor, parameter: Tensor) -> Tensor:
        """By rows."""
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * parameter


class bias_gelu(_Rows):
    """gelu(x + bias) in its tanh form."""

    parameter = "bias"

    @staticmethod
    def formula(x: Tensor, parameter: Tensor) -> Tensor:
        """Element by element."""
        return F.gelu(x + parameter, approximate="tanh")


class cross_entropy:
    """The mean loss, and N times the gradient of the logits: of a mean over N rows it would vanish in float16."""

    def __init__(self, device: torch.device, rows: int, classes: int, dtype: str = "float16") -> None:
        self.device, self.precision, self._num_rows, self._num_classes = device, dtype, rows, classes
        self.inputs = {"logits": (dtype, (rows, classes)), "targets": ("int64", (rows,))}
        self.outputs = {"loss": ("float32", ()), "dlogits": (dtype, (rows, classes))}
        item_bytes = torch.finfo(getattr(torch, dtype)).bits // 8
        self.moved_bytes, self.flops = 2 * rows * classes * item_bytes, 0.0  # one pass over the logits would do

    def fill(self, inputs: dict[str, Tensor], generator: torch.Generator) -> None:
        """Standard normal logits, any targets."""
        inputs["logits"].normal_(generator=generator)
        inputs["targets"].random_(self._num_classes, generator=generator)

    def places(self, generator: torch.Generator) -> Tensor:
        """Some rows of the gradient."""
        return torch.randint(self._num_rows, (NUM_ROWS_LOOKED_AT,), generator=generator).to(self.device)

    def taken(self, outputs: dict[str, Tensor], places: Tensor) -> dict[str, Tensor]:
        """Copies of the loss and these rows."""
        return {"loss": outputs["loss"].clone(), "dlogits": outputs["dlogits"][places]}

    def exact(self, inputs: dict[str, Tensor], places: Tensor) -> dict[str, Tensor]:
        """Rows of the gradient in float64; the loss as a sum in float64 of rows in float32."""
        logits, targets = inputs["logits"], inputs["targets"]
        rows = zip(logits.split(CHUNK_ROWS), targets.split(CHUNK_ROWS), strict=True)
        loss = sum(F.cross_entropy(some.float(), its, reduction="none").double().sum() for some, its in rows) / self._num_rows
        return {"loss": loss, "dlogits": self._gradient(logits[places].double(), targets[places])}

    def plain(self, inputs: dict[str, Tensor], places: Tensor) -> dict[str, Tensor]:
        """Rows of the gradient in float32, rounded once; the loss in float32."""
        logits, targets = inputs["logits"], inputs["targets"]
        losses = [F.cross_entropy(some.float(), its, reduction="none")
                  for some, its in zip(logits.split(CHUNK_ROWS), targets.split(CHUNK_ROWS), strict=True)]  # fmt: skip
        return {"loss": torch.cat(losses).mean(), "dlogits": self._gradient(logits[places].float(), targets[places]).to(logits.dtype)}

    @staticmethod
    def _gradient(logits: Tensor, targets: Tensor) -> Tensor:
        return logits.softmax(-1) - F.one_hot(targets, logits.shape[-1])
