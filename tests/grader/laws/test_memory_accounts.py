"""The accounts that the laws of memory_accounting hold submissions against are themselves held against what torch really keeps."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
import torch

from tests.laws.memory_accounting import ledger, printed
from tests.laws.memory_accounting.models import Model
from tests.probes import memory_accounting as probe

BASE = {"vocab_size": 211, "max_tokens": 48, "num_layers": 2, "hidden_size": 48, "num_heads": 6, "num_kv_heads": 6, "mlp_size": 130}
KINDS: dict[str, dict[str, Any]] = {
    "dense": {},
    "fused": {"attention": "sdpa"},
    "dense_grouped": {"num_kv_heads": 2},
    "fused_grouped": {"num_kv_heads": 2, "attention": "sdpa"},
    "dense_rotary": {"positions": "rotary"},
    "gated_untied": {"activation": "swiglu", "bias": False, "tied": False},
    "one_layer": {"num_layers": 1, "vocab_size": 7},
}


def config_of(model: Model) -> Any:
    """The given GPT's own config."""
    from lm.gpt import GPTConfig

    return GPTConfig(**asdict(model))


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_ledger_of_activations_is_what_a_step_keeps(kind: str, dtype: torch.dtype, recompute: str) -> None:
    """To the byte, but for the one number that cross-entropy keeps for its weights."""
    model = Model(**(BASE | KINDS[kind]))
    kept_bytes = probe.activations_kept(config_of(model), 3, 40, dtype, recompute, "cpu")
    counted_bytes = sum(ledger.activations(model, 3, 40, dtype.itemsize, recompute).values())
    assert kept_bytes == counted_bytes + dtype.itemsize


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_ledger_of_parameters_is_the_models(kind: str) -> None:
    """Exactly, on the meta device."""
    model = Model(**(BASE | KINDS[kind]))
    held = sum(parameter.numel() for parameter in probe.model_of(config_of(model), torch.float32, "meta").parameters())
    assert sum(ledger.parameters(model).values()) == held


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("precision", ["fp32", "autocast", "bf16", "mixed", "mixed_fp32_gradients"])
def test_the_ledger_of_states_is_what_a_step_leaves_alive(precision: str, optimizer: str) -> None:
    """Exactly, field by field; before the step without moments, before backward without gradients, and activations only in between."""
    model = Model(**BASE)
    step, whole = probe.states_alive(config_of(model), precision, optimizer), ledger.states(model, precision, optimizer)
    weights, gradients, masters, _ = whole
    assert step["after step"] == [*whole, 0] and step["after backward"] == [weights, gradients, masters, 0, 0]
    assert step["before"] == [weights, 0, masters, 0, 0] and step["after forward"][:4] == [weights, 0, masters, 0]
    assert step["after forward"][4] > 0


def test_the_papers_list_sums_to_the_papers_formula() -> None:
    """34 and 5, of which 10 are whole on every tensor-parallel rank (Korthikanti et al. 2022, equations 1 and 2)."""
    linear = [kept for kept in ledger.PAPER_LAYER if not kept.is_square]
    assert sum(kept.bytes_each for kept in linear) == 34
    assert sum(kept.bytes_each for kept in linear if not kept.is_cut_by_tp) == 10
    assert sum(kept.bytes_each for kept in ledger.PAPER_LAYER if kept.is_square) == 5


def test_the_printed_tables_agree_with_their_formulas() -> None:
    """No slip of the pen in the rows: ZeRO's within a unit of the last digit, Megatron's sizes after rounding."""
    for (size, dp), row in printed.ZERO_TABLE_1.items():
        for stage, figure in enumerate(row, start=1):
            exact = sum(ledger.zero([2 * size, 2 * size, 4 * size, 8 * size], dp=dp, stage=stage)) / 1e9
            assert abs(exact - float(figure)) <= printed.last_digit(figure), (size, dp, stage)
    for billions, heads, hidden, layers in printed.MEGATRON_TABLE_1:
        model = Model(printed.MEGATRON_VOCABULARY, printed.MEGATRON_SEQUENCE, layers, hidden, heads, heads, 4 * hidden)
        assert round(sum(ledger.parameters(model).values()) / 1e9, 1) == billions
