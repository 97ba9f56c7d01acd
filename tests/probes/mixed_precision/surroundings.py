"""What several of the probes here need: a small GPT with its loss, and a leaf's gradient."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def small_gpt(at: Any, dtype: torch.dtype = torch.float32) -> Any:
    """The given GPT, two layers; equal weights whenever it is made."""
    from lm.gpt import GPT, GPTConfig

    torch.manual_seed(at.seed % 2**31)
    config = GPTConfig(
        vocab_size=31, max_tokens=12, num_layers=2, hidden_size=32, num_heads=4, num_kv_heads=2, mlp_size=48, attention="dense"
    )
    return GPT(config).to(dtype)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean over all targets."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def gradient(leaf: Tensor, what: str) -> Tensor:
    """The leaf's gradient, if it has one."""
    if leaf.grad is None:
        raise RuntimeError(f"backward left no gradient on {what}")
    return leaf.grad
