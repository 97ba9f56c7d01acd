"""The forward for Hopper, where there is none: it compiles without spills, played it is right, and its blocks are dealt out evenly."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tests.grader.kernels.hopper_machine import Misplayed
from tests.grader.kernels.hopper_on_host import on_host

ROOT = Path(__file__).resolve().parents[3]
# Triton is told before it is imported whether kernels are interpreted: so, in a process of its own.
COMPILED = """
import subprocess, sys
import flash_attention_hopper as hopper
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

block_d = int(sys.argv[1])
plan = hopper.PLANS[block_d]

def descriptor(rows):
    block = [1, 1, rows, block_d]
    return f"tensordesc<bf16{block},{gl.NVMMASharedLayout.get_default_for(block, gl.bfloat16)!r}>"

signature = {name: descriptor(hopper.ROWS if name in "qo" else hopper.BLOCK_K) for name in "qkvo"}
signature = {f"{name}_desc": kind for name, kind in signature.items()}
signature |= {"lse_ptr": "*fp32", "blocks": "*i32", "starts": "*i32"}
signature |= dict.fromkeys(("num_blocks", "num_heads", "num_sharing", "num_queries", "num_keys"), "i32") | {"log2_scale": "fp32"}
known = {"CAUSAL": True, "NUM_CONSUMERS": plan.num_consumers, "STAGES": plan.num_stages, "CONSUMER_REGISTERS": plan.consumer_registers}
source = GluonASTSource(hopper.forward_kernel, signature | dict.fromkeys(known, "constexpr"), known)
kernel = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "maxnreg": plan.num_registers})
with open("kernel.ptx", "w") as file:
    file.write(kernel.asm["ptx"])
print(kernel.metadata.num_warps, kernel.metadata.shared, flush=True)
subprocess.run([knobs.nvidia.ptxas.path, "-arch=sm_90a", "-v", "kernel.ptx", "-o", "kernel.cubin"], check=True, stderr=subprocess.STDOUT)
"""


@pytest.fixture(scope="module")
def hopper() -> Iterator[ModuleType]:
    """The module, which imports the readable file."""
    pytest.importorskip("triton")
    before = sys.modules.pop("flash_attention", None)
    sys.path.insert(0, str(ROOT / "solutions"))
    yield importlib.import_module("tests.benchmarks.flash_attention_hopper")
    sys.path.remove(str(ROOT / "solutions"))
    del sys.modules["flash_attention"]
    if before is not None:
        sys.modules["flash_attention"] = before


@pytest.mark.parametrize("block_d", [64, 128])
def test_it_compiles_for_hopper_without_spills_and_with_asynchronous_products(block_d: int, tmp_path: Path) -> None:
    """ptxas says what it had to spill, and warns where it makes products wait for one another (C7510 to C7519)."""
    pytest.importorskip("triton")
    (tmp_path / "compiled.py").write_text(COMPILED)
    environment = {
        "PYTHONPATH": f"{ROOT / 'solutions'}:{ROOT / 'tests' / 'benchmarks'}",
        "TRITON_CACHE_DIR": str(tmp_path),
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
    }
    words = [sys.executable, "compiled.py", str(block_d)]
    seen = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert seen.returncode == 0, seen.stderr[-3000:]
    num_warps, shared_bytes = map(int, seen.stdout.split("\n")[0].split())
    assert num_warps == 4 * {64: 4, 128: 3}[block_d]  # consumers, and one group of which a warp loads
    assert shared_bytes <= 227 * 1024
    assert "0 bytes spill stores, 0 bytes spill loads" in seen.stdout
    assert not re.search(r"C75\d\d|serialized", seen.stdout), seen.stdout
    wgmma = (tmp_path / "kernel.ptx").read_text().count("wgmma.mma_async")
    assert wgmma > 0


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("num_queries", "block_q"), [(1, 128), (1000, 192), (4096, 128)])
def test_every_block_is_worked_on_once_and_programs_end_together(hopper: ModuleType, num_queries: int, block_q: int, causal: bool) -> None:
    """All blocks of all heads, each once; where there are many, no program has much more than another."""
    num_heads, num_programs = 64, 132
    blocks, starts = hopper.schedule(num_heads, num_queries, num_queries, causal, block_q, 8, num_programs)
    num_blocks = -(-num_queries // block_q)
    assert sorted(blocks) == list(range(num_heads * num_blocks))
    assert starts[0] == 0 and starts[-1] == len(blocks) and len(starts) == num_programs + 1 and starts == sorted(starts)
    seen = [min((block % num_blocks + 1) * block_q, num_queries) if causal else num_queries for block in blocks]
    turns = [1 + -(-num_keys // hopper.BLOCK_K) for num_keys in seen]
    loads = [sum(turns[first:last]) for first, last in itertools.pairwise(starts)]
    assert max(loads) <= statistics.mean(loads) + max(turns)
    if causal and num_queries == 4096:
        assert max(loads) <= 1.01 * statistics.mean(loads)  # dealt out one after the other, it would be 1.27


# --- played on the host ----------------------------------------------------------------------------------------------
SHAPES = [  # B, H, G, T, S, D, causal
    (1, 2, 1, 300, 300, 64, True),
    (1, 2, 2, 200, 333, 40, False),
    (2, 2, 1, 260, 260, 128, True),
    (1, 1, 1, 5, 5, 128, True),
]


def largest_error(hopper: ModuleType, shape: tuple[int, ...], lot: int) -> float:
    """Of o beside float64, over what one rounding to bfloat16 of the largest weight and of o may take; of lse, over 1e-5."""
    batch, num_heads, num_kv_heads, num_queries, num_keys, head_dim, causal = shape
    generator = torch.Generator().manual_seed(lot)
    q, k, v = (
        torch.randn(batch, heads, tokens, head_dim, generator=generator).bfloat16()
        for heads, tokens in ((num_heads, num_queries), (num_kv_heads, num_keys), (num_kv_heads, num_keys))
    )
    with on_host(hopper, ["forward_kernel"], num_processors=2, lot=lot):
        o, lse = hopper.flash_attention_forward(q, k, v, causal=bool(causal))
    expected, expected_lse = hopper.readable.tiled_attention(q.double(), k.double(), v.double(), causal=bool(causal))
    of_o = (o.double() - expected).abs().max() / (2 * 2**-8 * v.double().abs().max())
    return float(torch.maximum(of_o, (lse - expected_lse).abs().max() / 1e-5).nan_to_num(nan=torch.inf))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_played_on_the_host_it_is_right_in_whatever_order_things_happen(hopper: ModuleType, shape: tuple[int, ...]) -> None:
    """Several lots: who goes on at a barrier, and when a copy lands."""
    assert max(largest_error(hopper, shape, lot) for lot in range(5)) <= 1


BROKEN = [  # what is taken out of the kernel or put in, and what is seen then
    ("wait_full(k_full, i)\n                mbarrier.wait(turns", "mbarrier.wait(turns", "had not arrived"),
    ("signal(v_free, i - 1)\n                p_narrow", "p_narrow", "wait for ever"),  # a slot that is never free again
    ("deps=(o_to_be, p_narrow))\n                signal(v_free, i - 1)", "deps=(o_to_be, p_narrow))", "wait for ever"),
    ("s = warpgroup_mma_wait(1, deps=(s_to_be,))", "s = warpgroup_mma_wait(2, deps=(s_to_be,))", "before it was waited for"),
    ("s = warpgroup_mma_wait(1, deps=(s_to_be,))\n                signal(k_free, i)",
     "signal(k_free, i)\n                s = warpgroup_mma_wait(1, deps=(s_to_be,))", "while a product read it"),
    ("wait_free(free, i)\n    barrier", "barrier", "overwritten"),  # loads over what is still read
    ("tma.store_wait(0)  # the last", "#", "overwritten while it was stored"),
    ("fence_async_shared()\n            tma", "tma", "without a fence"),
    ("o = o * gl.convert_layout(rescale, rows_of_o)[:, None]\n                wait_full", "wait_full", ""),  # wrong values only
    ("seen = offs_q + 1", "seen = offs_q", ""),
]  # fmt: skip


@pytest.mark.parametrize(("there", "instead", "seen"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_kernel_is_seen(hopper: ModuleType, there: str, instead: str, seen: str, tmp_path: Path) -> None:
    """A wait, a signal, a fence or a factor left out: some lot shows it, by a sentence or by wrong values."""
    source = Path(hopper.__file__ or "").read_text()
    assert source.count(there) == 1
    (tmp_path / "broken.py").write_text(source.replace(there, instead))
    specification = importlib.util.spec_from_file_location("broken", tmp_path / "broken.py")
    assert specification is not None and specification.loader is not None
    broken = sys.modules["broken"] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(broken)
    words, errors = [], []
    for lot in range(5):
        try:
            errors.append(largest_error(broken, (1, 1, 1, 700, 700, 128, True), lot))
        except Misplayed as misplayed:
            words.append(str(misplayed))
    assert any(seen in each for each in words) if seen else max(errors) > 1, (words, errors)
