"""The forward for Hopper, where there is none: it compiles without spills, and its list of blocks is whole and even."""

from __future__ import annotations

import importlib
import itertools
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

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
