"""The race of a tuned training step: fresh tokens, and whether loss and gradients are those of the model. The submission never meets it."""

# V vocabulary, C hidden size, L layers, B sequences, T tokens of each
from __future__ import annotations

import contextlib
import math
from typing import Any

import torch
from torch import Tensor

NUM_ROWS_LOOKED_AT = 256
MATRICES = ("attention.qkv", "attention.out", "mlp.up", "mlp.down")  # of each block


class step:
    """The mean loss, and the gradients of all matrices. A GPU computes in sixteen bits, and is compared with float32."""

    most_calls = 8

    def __init__(self, device: torch.device, batch: int, config: dict[str, Any]) -> None:
        from lm.gpt import GPT, GPTConfig

        self.device = device
        torch.manual_seed(0)  # as the entrants do: the same weights
        with device:
            self._gpt = GPT(GPTConfig(**config))
        self._config = self._gpt.config
        on_gpu = device.type == "cuda"
        self._sixteen = torch.bfloat16 if on_gpu and torch.cuda.get_device_capability(device) >= (8, 0) else torch.float16
        self.precision = str(self._sixteen).removeprefix("torch.") if on_gpu else "float32"
        # Of a mean over B T tokens, each as far off as its logits are rounded, here or there: a tenth of this is usual in bfloat16.
        if on_gpu:
            self.least_error = {"loss": float(torch.finfo(self._sixteen).eps) / 4 / math.sqrt(batch * self._config.max_tokens)}
        self._layers = {name: [block.get_submodule(name).weight for block in self._gpt.blocks] for name in MATRICES}
        self._num_rows, self._num_layers = self._config.vocab_size, self._config.num_layers
        self.inputs = {"tokens": ("int64", (batch, self._config.max_tokens + 1))}
        self.outputs = {"loss": ("float32", ()), "embedding": ("float32", tuple(self._gpt.token_embedding.weight.shape))}
        self.outputs |= {name: ("float32", (self._num_layers, *some[0].shape)) for name, some in self._layers.items()}
        weights = sum(each.numel() for some in self._layers.values() for each in some) + self._gpt.token_embedding.weight.numel()
        self.moved_bytes, self.flops = 2 * 4 * weights, 6.0 * weights * batch * self._config.max_tokens

    def fill(self, inputs: dict[str, Tensor], generator: torch.Generator) -> None:
        """Any tokens."""
        inputs["tokens"].random_(self._config.vocab_size, generator=generator)

    def places(self, generator: torch.Generator) -> tuple[int, Tensor]:
        """A layer, and some rows of the embedding, which is the head as well."""
        rows = torch.randint(self._num_rows, (NUM_ROWS_LOOKED_AT,), generator=generator)
        return int(torch.randint(self._num_layers, (), generator=generator)), rows.to(self.device)

    def taken(self, outputs: dict[str, Tensor], places: tuple[int, Tensor]) -> dict[str, Tensor]:
        """Copies of these and of the loss."""
        layer, rows = places
        seen = {name: outputs[name][layer].clone() for name in MATRICES}
        return seen | {"loss": outputs["loss"].clone(), "embedding": outputs["embedding"][rows]}

    def exact(self, inputs: dict[str, Tensor], places: tuple[int, Tensor]) -> dict[str, Tensor]:
        """In float32 on a GPU, with products in full precision; in float64 on the host."""
        if self.device.type == "cuda":
            return self._computed(inputs, places, contextlib.nullcontext())
        self._gpt.double()
        try:
            return self._computed(inputs, places, contextlib.nullcontext())
        finally:
            self._gpt.float()

    def plain(self, inputs: dict[str, Tensor], places: tuple[int, Tensor]) -> dict[str, Tensor]:
        """Under autocast on a GPU, operation by operation; in float32 on the host."""
        is_cast = self.device.type == "cuda"
        return self._computed(inputs, places, torch.autocast(self.device.type, self._sixteen, enabled=is_cast), 2.0**16 if is_cast else 1.0)

    def _computed(self, inputs: dict[str, Tensor], places: tuple[int, Tensor], how: Any, scale: float = 1.0) -> dict[str, Tensor]:
        (layer, rows), loss = places, torch.zeros((), device=self.device)
        for tokens in inputs["tokens"].split(1):  # one by one: dense attention would hold all scores of all layers
            with torch.enable_grad():
                with how:
                    part = self._gpt(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()) / len(inputs["tokens"])
                (part * scale).backward()
            loss = loss + part.detach()
        of = {name: some[layer].grad / scale for name, some in self._layers.items()}
        of |= {"loss": loss, "embedding": self._gpt.token_embedding.weight.grad[rows] / scale}
        self._gpt.zero_grad(set_to_none=True)
        return of
