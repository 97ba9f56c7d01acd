"""Gluon kernels for Hopper, played on the host: right in whatever order things happen, and seen where they are broken."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tests.grader.kernels.hopper_machine import Misplayed
from tests.grader.kernels.hopper_on_host import on_host

ROOT = Path(__file__).resolve().parents[3]
ROUNDING = 2.0**-8  # of a number in bfloat16, relative
LOTS = range(5)
FORWARD, BACKWARD = "tests.benchmarks.flash_attention_hopper", "tests.benchmarks.flash_attention_hopper_backward"
KERNELS = {FORWARD: ["forward_kernel"], BACKWARD: ["prepare_kernel", "backward_kernel", "finish_kernel"]}
Shape = tuple[int, int, int, int, int, int, bool]  # B, H, G, T, S, D, causal
Given = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]  # q, k, v, do


@pytest.fixture(scope="module")
def readable() -> Iterator[ModuleType]:
    """The readable file, which these modules import; and they, made anew beside it."""
    pytest.importorskip("triton")
    names = ("flash_attention", FORWARD, BACKWARD)
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(ROOT / "solutions"))
    yield importlib.import_module("flash_attention")
    sys.path.remove(str(ROOT / "solutions"))
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(before)


def broken(name: str, there: str, instead: str, folder: Path) -> ModuleType:
    """The module of that name with one piece of its text replaced."""
    source = Path(importlib.import_module(name).__file__ or "").read_text(encoding="utf-8")
    assert source.count(there) == 1, source.count(there)
    (folder / "broken.py").write_text(source.replace(there, instead), encoding="utf-8")
    specification = importlib.util.spec_from_file_location("broken", folder / "broken.py")
    assert specification is not None and specification.loader is not None
    module = sys.modules["broken"] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def drawn(shape: Shape, lot: int) -> Given:
    """q, k, v and do; do as a model hands it over, with tokens before heads in memory."""
    batch, num_heads, num_kv_heads, num_queries, num_keys, head_dim, _ = shape
    generator = torch.Generator().manual_seed(lot)
    sizes = [(num_queries, num_heads), (num_keys, num_kv_heads), (num_keys, num_kv_heads), (num_queries, num_heads)]
    drawn = [torch.randn(batch, tokens, heads, head_dim, generator=generator).bfloat16().transpose(1, 2) for tokens, heads in sizes]
    q, k, v, do = drawn
    return q.contiguous(), k.contiguous(), v.contiguous(), do


def off(got: torch.Tensor, expected: torch.Tensor, allowed: float) -> float:
    """The largest error over what is allowed of the largest value; infinite for NaN."""
    return float(((got.double() - expected).abs().max() / (allowed * expected.abs().max())).nan_to_num(nan=torch.inf))


def forward_error(module: ModuleType, readable: ModuleType, given: Given, causal: bool, lot: int) -> float:
    """Of o and lse beside float64, over two roundings of what is rounded on the way."""
    q, k, v, _ = given
    with on_host(module, KERNELS[FORWARD], num_processors=2, lot=lot):
        o, lse = module.flash_attention_forward(q, k, v, causal=causal)
    expected, expected_lse = readable.tiled_attention(q.double(), k.double(), v.double(), causal=causal)
    return max(off(o, expected, 2 * ROUNDING), off(lse, expected_lse.double(), 1e-5))


def backward_error(module: ModuleType, readable: ModuleType, given: Given, causal: bool, lot: int) -> float:
    """Of dq, dk and dv beside float64, likewise."""
    q, k, v, do = given
    o, lse = readable.tiled_attention(q, k, v, causal=causal)
    with contextlib.ExitStack() as stack:
        stack.enter_context(on_host(importlib.import_module(FORWARD), [], num_processors=2, lot=lot))  # it says what is served
        stack.enter_context(on_host(module, KERNELS[BACKWARD], num_processors=2, lot=lot))
        gradients = module.flash_attention_backward(do, q, k, v, o, lse, causal=causal)
    exact = readable.tiled_attention_backward(*(x.double() for x in (do, q, k, v, o)), lse, causal=causal)
    return max(off(got, expected, 2 * ROUNDING) for got, expected in zip(gradients, exact, strict=True))


# --- right ones ------------------------------------------------------------------------------------------------------
FORWARD_SHAPES: list[Shape] = [
    (1, 2, 1, 300, 300, 64, True),
    (1, 2, 2, 200, 333, 40, False),
    (2, 2, 1, 260, 260, 128, True),
    (1, 1, 1, 5, 5, 128, True),
]
BACKWARD_SHAPES: list[Shape] = [
    (1, 1, 1, 200, 200, 128, True),
    (1, 2, 1, 300, 300, 128, True),
    (2, 4, 2, 100, 333, 104, False),
    (1, 1, 1, 5, 5, 128, True),
]


@pytest.mark.parametrize("shape", FORWARD_SHAPES, ids=str)
def test_the_forward_is_right_in_whatever_order_things_happen(readable: ModuleType, shape: Shape) -> None:
    """Several lots: who goes on at a barrier, and when a copy lands."""
    module = importlib.import_module(FORWARD)
    assert max(forward_error(module, readable, drawn(shape, lot), shape[-1], lot) for lot in LOTS) <= 1


@pytest.mark.parametrize("shape", BACKWARD_SHAPES, ids=str)
def test_the_backward_is_right_in_whatever_order_things_happen(readable: ModuleType, shape: Shape) -> None:
    """Likewise."""
    module = importlib.import_module(BACKWARD)
    assert max(backward_error(module, readable, drawn(shape, lot), shape[-1], lot) for lot in LOTS) <= 1


def far_below_zero_error(module: ModuleType, readable: ModuleType) -> float:
    """Of the gradients where all scores are about -700 and two keys lack to a whole block; large, since what is added up cancels."""
    q, k, v, do = drawn((1, 1, 1, 70, 126, 128, False), 0)
    q, k = (q / 8 + 8).bfloat16(), (k / 8 - 8).bfloat16()
    return backward_error(module, readable, (q, k, v, do), causal=False, lot=0)


def test_keys_beyond_the_end_weigh_nothing(readable: ModuleType, tmp_path: Path) -> None:
    """Their scores are 0, which may be far above all others: the weight is infinite unless it is masked."""
    assert far_below_zero_error(importlib.import_module(BACKWARD), readable) < math.inf
    assert far_below_zero_error(broken(BACKWARD, "num_masked = num_turns", "pass", tmp_path), readable) == math.inf


# --- broken ones -----------------------------------------------------------------------------------------------------
BROKEN_FORWARDS = [  # what is taken out of the kernel or put in, and what is said then; nothing where only values are wrong
    ("wait_full(k_full, i)\n                mbarrier.wait(turns", "mbarrier.wait(turns", "had not arrived"),
    ("signal(v_free, i - 1)\n                p_narrow", "p_narrow", "wait for ever"),
    ("s = warpgroup_mma_wait(1, deps=(s_to_be,))", "s = warpgroup_mma_wait(2, deps=(s_to_be,))", "before it was waited for"),
    ("s = warpgroup_mma_wait(1, deps=(s_to_be,))\n                signal(k_free, i)",
     "signal(k_free, i)\n                s = warpgroup_mma_wait(1, deps=(s_to_be,))", "while a product read it"),
    ("wait_free(free, i)\n    barrier", "barrier", "overwritten"),
    ("tma.store_wait(0)  # the last", "#", "overwritten while it was stored"),
    ("fence_async_shared()\n            tma", "tma", "without a fence"),
    ("o = o * gl.convert_layout(rescale, rows_of_o)[:, None]\n                wait_full", "wait_full", ""),
    ("seen = offs_q + 1", "seen = offs_q", ""),
]  # fmt: skip
BROKEN_BACKWARDS = [
    ("    wait_full(ds_full, i)\n", "", "product read"),
    ("    fence_async_shared()\n    signal(ds_full", "    signal(ds_full", "without a fence"),
    ("        signal(q_free, i - 1)\n", "", "wait for ever"),
    ("        dk = warpgroup_mma_wait(NUM_CONSUMERS, deps=(dk_to_be,))\n        signal(q_free, i - 1)\n",
     "        signal(q_free, i - 1)\n        dk = warpgroup_mma_wait(NUM_CONSUMERS, deps=(dk_to_be,))\n", "while a product read it"),
    ("dp = warpgroup_mma_wait(1,", "dp = warpgroup_mma_wait(2,", "before it was waited for"),
    ("    tma.store_wait(0)\n    own", "    own", "overwritten while it was stored"),
    ("        add_to_sums(dq, sums_before, CONSUMER, BLOCK_D)\n", "", ""),
    ("[:, None] <= offs_q[None, :]", "[:, None] < offs_q[None, :]", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "there", "instead", "said"),
    [*((FORWARD, *each) for each in BROKEN_FORWARDS), *((BACKWARD, *each) for each in BROKEN_BACKWARDS)],
)
def test_a_broken_kernel_is_seen(readable: ModuleType, name: str, there: str, instead: str, said: str, tmp_path: Path) -> None:
    """A wait, a signal, a fence, a mask or a factor left out: some lot shows it, by a sentence or by wrong values."""
    module = broken(name, there, instead, tmp_path)
    error_of, shape = (
        (forward_error, (1, 1, 1, 700, 700, 128, True)) if name == FORWARD else (backward_error, (1, 2, 1, 330, 330, 128, True))
    )
    words, errors = [], [0.0]
    for lot in LOTS:
        try:
            errors.append(error_of(module, readable, drawn(shape, lot), True, lot))
        except Misplayed as misplayed:
            words.append(str(misplayed))
    assert any(said in each for each in words) if said else max(errors) > 1, (words, errors)
