"""The FLOPs that the laws of mfu_report hold submissions against are themselves held against those counted on the given model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from tests.laws.mfu_report import logs, oracle, tampered
from tests.laws.mfu_report.bounds import Changes

BASE = {"vocab_size": 211, "max_tokens": 48, "num_layers": 2, "hidden_size": 48, "num_heads": 6, "num_kv_heads": 6, "mlp_size": 130}
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "grouped": {"num_kv_heads": 2},
    "gated_untied_rotary": {"activation": "swiglu", "bias": False, "tied": False, "positions": "rotary", "norm": "rmsnorm"},
    "narrow": {"mlp_size": 10, "num_layers": 3, "vocab_size": 7},
}


def counted_on_the_model(model: oracle.Model, sequence: int, recompute: str) -> float:
    """FLOPs per token of a real forward and backward, torch's re-entrant checkpoint making again what `recompute` says."""
    from lm.gpt import GPT, GPTConfig

    with torch.device("meta"):
        gpt = GPT(GPTConfig(**asdict(model)))
        tokens_BT = torch.zeros(1, sequence, dtype=torch.long)
    for block in gpt.blocks:
        if recompute == "full":
            block.forward = again(block.forward)
        if recompute == "selective":
            block.attention.attend = again(block.attention.attend, causal=True)
    with FlopCounterMode(display=False) as counter:
        gpt(tokens_BT, tokens_BT).backward()
    return counter.get_total_flops() / sequence


def again(forward: Any, **fixed: Any) -> Any:
    """`forward`, made a second time in backward; its re-entrant form makes all of it."""
    return lambda *given, **_: checkpoint(lambda *tensors: forward(*tensors, **fixed), *given, use_reentrant=True)


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_count_is_that_of_the_given_model(kind: str, recompute: str) -> None:
    """Every product of a real step, and no other, whatever the options."""
    model = oracle.Model(**(BASE | KINDS[kind]))
    expected = counted_on_the_model(model, 32, recompute)
    assert oracle.flops_per_token(model, 32, causal=False, recompute=recompute) == expected


def test_the_causal_count_has_the_pairs_that_the_mask_leaves() -> None:
    """Counted one by one on the mask itself."""
    visible = torch.ones(17, 17, dtype=torch.bool).tril().sum().item()
    assert oracle.keys_of(17, True) * 17 == visible


@pytest.mark.parametrize("ladder", [logs.LADDER, logs.OTHER_LADDER], ids=["ladder", "other"])
def test_a_drawn_ladder_is_possible_whatever_is_drawn(ladder: Any) -> None:
    """Otherwise a right submission could be refused by the luck of a draw."""
    for seed in range(200):
        assert oracle.violations(*logs.climbed(np.random.default_rng(seed), ladder)) == {}


@pytest.mark.parametrize("tamper", [tampered.at_every_edge, tampered.knows_nothing])
def test_logs_at_the_edge_are_possible_whatever_is_drawn(tamper: Any) -> None:
    """Likewise at the edge, where rounding is not to decide."""
    for seed in range(100):
        assert oracle.violations(*tamper(*logs.climbed(np.random.default_rng(seed), logs.LADDER))) == {}


def test_a_run_that_is_changed_to_reach_a_utilisation_does() -> None:
    """The tampered logs are as far beyond a bound as they say."""
    log = Changes(*logs.climbed(np.random.default_rng(0), logs.LADDER))
    log.reach("recomputed", 0.75)
    assert oracle.hardware_utilisation(log["recomputed"], log.machine) == pytest.approx(0.75)
