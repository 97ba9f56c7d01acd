"""The GPT that every assignment measures, fuses, shards and cuts: GPT-2, GPT-3 and Llama 3 are settings of one config.

Shapes: B batch, T tokens, C hidden size, H query heads, G key/value heads, R = H/G query heads per group, D head dim, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

INIT_STD = 0.02  # GPT-2's
NORM_EPSILON = 1e-5

# Takes q_BHTD, k_BGTD, v_BGTD and the keyword `causal`; returns o_BHTD.
Attention = Callable[..., Tensor]


@dataclass(frozen=True)
class GPTConfig:
    """Everything that decides a model's shape. Frozen: derive another with dataclasses.replace."""

    vocab_size: int
    max_tokens: int
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int  # equal to num_heads: multi-head attention; fewer: grouped-query attention
    mlp_size: int
    positions: Literal["learned", "rotary"] = "learned"
    norm: Literal["layernorm", "rmsnorm"] = "layernorm"
    activation: Literal["gelu", "swiglu"] = "gelu"
    bias: bool = True
    tied: bool = True  # the head shares the token embedding's weight
    attention: Literal["dense", "sdpa", "flash"] = "sdpa"
    rotary_base: float = 10_000.0
    dropout: float = 0.0  # on the embeddings and on what each block adds; attention probabilities are never dropped
    stream: Literal["fp32", "bf16"] = "fp32"  # what the blocks add to; bf16 under autocast only, which casts products and no sums

    def __post_init__(self) -> None:
        """Raise ValueError for shapes that no model can have."""
        if self.hidden_size % self.num_heads:
            raise ValueError(f"hidden_size {self.hidden_size} is not divisible by num_heads {self.num_heads}")
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"num_heads {self.num_heads} is not divisible by num_kv_heads {self.num_kv_heads}")
        if self.positions == "rotary" and self.head_dim % 2:
            raise ValueError(f"rotary positions turn pairs of numbers, so head_dim must be even, not {self.head_dim}")

    @property
    def head_dim(self) -> int:
        """Numbers per attention head."""
        return self.hidden_size // self.num_heads


def dense_attention(q_BHTD: Tensor, k_BGTD: Tensor, v_BGTD: Tensor, *, causal: bool = True) -> Tensor:
    """Textbook attention: holds the whole T×T matrix of scores, once per head. Causal masks are aligned to the last token."""
    num_queries_per_group = q_BHTD.shape[1] // k_BGTD.shape[1]
    if num_queries_per_group > 1:
        k_BGTD, v_BGTD = (x.repeat_interleave(num_queries_per_group, dim=1) for x in (k_BGTD, v_BGTD))
    scores_BHTT = (q_BHTD @ k_BGTD.transpose(-2, -1)) / math.sqrt(q_BHTD.shape[-1])
    if causal:
        num_queries, num_keys = scores_BHTT.shape[-2:]
        visible_TT = torch.ones(num_queries, num_keys, dtype=torch.bool, device=q_BHTD.device).tril(num_keys - num_queries)
        scores_BHTT = scores_BHTT.masked_fill(~visible_TT, -math.inf)
    return scores_BHTT.softmax(dim=-1) @ v_BGTD


def sdpa_attention(q_BHTD: Tensor, k_BGTD: Tensor, v_BGTD: Tensor, *, causal: bool = True) -> Tensor:
    """PyTorch's own fused attention: never holds the T×T matrix where a fused kernel exists. Queries as many as keys."""
    grouped = q_BHTD.shape[1] != k_BGTD.shape[1]
    return F.scaled_dot_product_attention(q_BHTD, k_BGTD, v_BGTD, is_causal=causal, enable_gqa=grouped)


def attention_named(name: str) -> Attention:
    """Return the attention function called `name`; "flash" is yours, from flash_attention.py beside this package."""
    if name == "flash":
        from flash_attention import flash_attention  # on demand: the others must work before it is written

        return flash_attention  # type: ignore[no-any-return]
    return {"dense": dense_attention, "sdpa": sdpa_attention}[name]


def rotary_angles(positions_T: Tensor, head_dim: int, base: float) -> Tensor:
    """Return cosines and sines, stacked to (2, T, D/2): pair i turns by position · base^(−2i/D) (RoFormer, eq. 15)."""
    exponents = torch.arange(0, head_dim, 2, device=positions_T.device) / head_dim
    angles = positions_T[:, None].float() * base**-exponents
    return torch.stack((angles.cos(), angles.sin()))


def rotate(x_BHTD: Tensor, angles: Tensor) -> Tensor:
    """Turn the pairs (x[i], x[i + D/2]) by their position's angles; a query and a key then meet at their distance only."""
    cosine, sine = angles.to(x_BHTD.dtype)
    first, second = x_BHTD.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


class SelfAttention(nn.Module):
    """Causal self-attention with grouped key/value heads."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        # The rows of qkv are laid out group by group: R query heads, then their key head, then their value head. So a contiguous
        # slice of G/N groups is a complete, smaller attention, which is what tensor parallelism cuts off.
        self.qkv = nn.Linear(config.hidden_size, (config.num_heads + 2 * config.num_kv_heads) * config.head_dim, bias=config.bias)
        self.out = nn.Linear(config.num_heads * config.head_dim, config.hidden_size, bias=config.bias)
        self.attend = attention_named(config.attention)  # an attribute, so that context parallelism can put its own here

    def forward(self, x_BTC: Tensor, angles: Tensor | None = None) -> Tensor:
        """Mix each token with the tokens before it; `angles` as of rotary_angles, None with learned positions."""
        R, D = self.config.num_heads // self.config.num_kv_heads, self.config.head_dim
        # -1 counts the groups that are here: fewer than the config's once the layer is cut.
        qkv = self.qkv(x_BTC).unflatten(-1, (-1, R + 2, D))
        q_BHTD, k_BGTD, v_BGTD = (part.flatten(2, 3).transpose(1, 2) for part in qkv.split((R, 1, 1), dim=3))
        if angles is not None:
            q_BHTD, k_BGTD = rotate(q_BHTD, angles), rotate(k_BGTD, angles)
        o_BHTD = self.attend(q_BHTD, k_BGTD, v_BGTD, causal=True)
        return self.out(o_BHTD.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    """The block's two (gelu) or three (swiglu) matrices, token by token."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.hidden_size, config.mlp_size, bias=config.bias) if config.activation == "swiglu" else None
        self.up = nn.Linear(config.hidden_size, config.mlp_size, bias=config.bias)
        self.down = nn.Linear(config.mlp_size, config.hidden_size, bias=config.bias)

    def forward(self, x_BTC: Tensor) -> Tensor:
        """Widen, bend, narrow."""
        if self.gate is None:
            return self.down(F.gelu(self.up(x_BTC), approximate="tanh"))  # GPT-2's gelu
        return self.down(F.silu(self.gate(x_BTC)) * self.up(x_BTC))


def make_norm(config: GPTConfig) -> nn.Module:
    """Return the config's normalisation over the hidden dim."""
    if config.norm == "rmsnorm":
        return nn.RMSNorm(config.hidden_size, eps=NORM_EPSILON)
    return nn.LayerNorm(config.hidden_size, eps=NORM_EPSILON, bias=config.bias)


class Block(nn.Module):
    """One layer: attention, then MLP, each normalised on the way in and added to the residual stream."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.attention_norm = make_norm(config)
        self.attention = SelfAttention(config)
        self.mlp_norm = make_norm(config)
        self.mlp = MLP(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BTC: Tensor, angles: Tensor | None = None) -> Tensor:
        """Carry the residual stream through the layer."""
        x_BTC = x_BTC + self.dropout(self.attention(self.attention_norm(x_BTC), angles))
        return x_BTC + self.dropout(self.mlp(self.mlp_norm(x_BTC)))


class GPT(nn.Module):
    """Embed, blocks, logits: each a method or a module of its own, because pipeline stages take them one by one."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embedding = nn.Embedding(config.max_tokens, config.hidden_size) if config.positions == "learned" else None
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.norm = make_norm(config)
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tied:
            self.head.weight = self.token_embedding.weight
        self.cross_entropy: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy  # tensor parallelism puts its own here
        self.initialise()

    @torch.no_grad()
    def initialise(self) -> None:
        """Draw every weight anew from the global generator, as GPT-2 does."""
        # Each block adds to the residual stream twice: this keeps the sum's spread independent of depth.
        residual_std = INIT_STD / math.sqrt(2 * self.config.num_layers)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            elif parameter.dim() == 2:
                parameter.normal_(std=residual_std if name.endswith(("out.weight", "down.weight")) else INIT_STD)

    def embed(self, tokens_BT: Tensor, positions_T: Tensor) -> Tensor:
        """Return the residual stream's start, (B, T, C)."""
        x_BTC = self.token_embedding(tokens_BT)
        if self.position_embedding is not None:
            x_BTC = x_BTC + self.position_embedding(positions_T)
        # From here on every sum has the dtype of its parts, so one cast narrows the stream through all blocks.
        return self.dropout(x_BTC.bfloat16() if self.config.stream == "bf16" else x_BTC)

    def angles(self, positions_T: Tensor) -> Tensor | None:
        """Return what the blocks need to know of positions: rotary_angles, or None with learned positions."""
        if self.config.positions == "learned":
            return None
        return rotary_angles(positions_T, self.config.head_dim, self.config.rotary_base)

    def logits(self, x_BTC: Tensor) -> Tensor:
        """Return (B, T, V) scores of the next token."""
        return self.head(self.norm(x_BTC))

    def forward(self, tokens_BT: Tensor, targets_BT: Tensor | None = None, *, positions_T: Tensor | None = None) -> Tensor:
        """Return logits (B, T, V); with targets, the mean cross-entropy over those that aren't -100.

        The loss is computed in here so that compilers and data-parallel wrappers see one call. positions_T: 0 … T−1 unless given.
        """
        if positions_T is None:
            positions_T = torch.arange(tokens_BT.shape[1], device=tokens_BT.device)
        x_BTC = self.embed(tokens_BT, positions_T)
        angles = self.angles(positions_T)
        for block in self.blocks:
            x_BTC = block(x_BTC, angles)
        logits_BTV = self.logits(x_BTC)
        if targets_BT is None:
            return logits_BTV
        return self.cross_entropy(logits_BTV.flatten(0, 1), targets_BT.flatten())


def _gpt(num_layers: int, hidden_size: int, num_heads: int, *, vocab_size: int = 50257, max_tokens: int = 1024) -> GPTConfig:
    return GPTConfig(vocab_size, max_tokens, num_layers, hidden_size, num_heads, num_heads, 4 * hidden_size)


def _llama3(num_layers: int, hidden_size: int, num_heads: int, mlp_size: int) -> GPTConfig:
    return GPTConfig(
        128256, 8192, num_layers, hidden_size, num_heads, 8, mlp_size,
        positions="rotary", norm="rmsnorm", activation="swiglu", bias=False, tied=False, rotary_base=500_000.0,
    )  # fmt: skip


PRESETS: dict[str, GPTConfig] = {
    "tiny": _gpt(2, 32, 4, vocab_size=256, max_tokens=64),
    "1m": _gpt(4, 128, 4, vocab_size=2048, max_tokens=256),
    "10m": _gpt(6, 320, 5, vocab_size=8192, max_tokens=512),
    "gpt2-124m": _gpt(12, 768, 12),  # Radford et al. 2019
    "gpt2-355m": _gpt(24, 1024, 16),
    "gpt3-1.3b": _gpt(24, 2048, 16, max_tokens=2048),  # Brown et al. 2020, table 2.1, which prints 24 heads of 128: not 2048
    "gpt3-175b": _gpt(96, 12288, 96, max_tokens=2048),
    "llama3-8b": _llama3(32, 4096, 32, 14336),  # Llama Team 2024, table 3; vocabulary as released, with its special tokens
    "llama3-70b": _llama3(80, 8192, 64, 28672),
    "llama3-405b": _llama3(126, 16384, 128, 53248),
}
