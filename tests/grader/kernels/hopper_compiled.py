"""Compiles a Gluon kernel of tests/benchmarks for Hopper, where there is none, and lets ptxas say what became of it.

    PYTHONPATH=solutions python -m tests.grader.kernels.hopper_compiled forward 128 FOLDER

A process of its own: Triton is told before it is imported whether kernels are interpreted.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

from tests.benchmarks import flash_attention_hopper as forward
from tests.benchmarks import flash_attention_hopper_backward as backward


def tiles(num_rows: int, block_d: int) -> str:
    """The type of a descriptor of such tiles."""
    block = [1, 1, num_rows, block_d]
    return f"tensordesc<bf16{block},{gl.NVMMASharedLayout.get_default_for(block, gl.bfloat16)!r}>"


def forward_source(block_d: int) -> tuple[GluonASTSource, int]:
    """The forward, and the registers of a thread."""
    plan = forward.PLANS[block_d]
    signature = {f"{name}_desc": tiles(forward.ROWS if name in "qo" else forward.BLOCK_K, block_d) for name in "qkvo"}
    signature |= {"lse_ptr": "*fp32", "blocks": "*i32", "starts": "*i32"}
    signature |= dict.fromkeys(("num_blocks", "num_heads", "num_sharing", "num_queries", "num_keys"), "i32") | {"log2_scale": "fp32"}
    known = {"CAUSAL": True, "NUM_CONSUMERS": plan.num_consumers, "STAGES": plan.num_stages, "CONSUMER_REGISTERS": plan.consumer_registers}
    return GluonASTSource(forward.forward_kernel, signature | dict.fromkeys(known, "constexpr"), known), plan.num_registers


def backward_source(block_d: int) -> tuple[GluonASTSource, int]:
    """The backward, likewise; dq's sums are aligned, as torch's memory is."""
    of_rows = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=2)
    signature = {f"{name}_desc": tiles(backward.ROWS, block_d) for name in ("q", "k", "v", "do")}
    signature |= {f"{name}_desc": f"tensordesc<fp32{[1, backward.ROWS]},{of_rows!r}>" for name in ("lse", "delta")}
    signature |= {f"{name}_desc": tiles(backward.ROWS, block_d) for name in ("dk", "dv")} | {"sums_ptr": "*fp32"}
    signature |= dict.fromkeys(("num_kv_heads", "num_sharing", "num_queries", "num_keys"), "i32")
    signature |= {"log2_scale": "fp32", "scale": "fp32", "heads_together": "i32"}
    known = {"CAUSAL": True, "NUM_CONSUMERS": backward.NUM_CONSUMERS, "STAGES": backward.NUM_STAGES}
    known |= {"CONSUMER_REGISTERS": backward.CONSUMER_REGISTERS}
    aligned = {(list(signature).index("sums_ptr"),): [["tt.divisibility", 16]]}
    return GluonASTSource(backward.backward_kernel, signature | dict.fromkeys(known, "constexpr"), known, aligned), backward.NUM_REGISTERS


def main(which: str, block_d: int, folder: Path) -> None:
    """Print what was compiled and how, line by line `name: number`, and then ptxas's own words."""
    source, num_registers = {"forward": forward_source, "backward": backward_source}[which](block_d)
    kernel = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "maxnreg": num_registers})
    (folder / "kernel.ptx").write_text(kernel.asm["ptx"])
    print(f"warps: {kernel.metadata.num_warps}\nshared bytes: {kernel.metadata.shared}")
    print(f"products: {kernel.asm['ptx'].count('wgmma.mma_async')}")
    print(f"pairs added: {len(re.findall(r'(?:atom|red).global.*add.*v2.f32', kernel.asm['ptx']))}", flush=True)
    words = [knobs.nvidia.ptxas.path, "-arch=sm_90a", "-v", str(folder / "kernel.ptx"), "-o", str(folder / "kernel.cubin")]
    subprocess.run(words, check=True, stderr=subprocess.STDOUT)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
