"""The Triton kernels of a submission to flash_attention under NVIDIA's compute-sanitizer: memcheck, then racecheck.

    python -m tests.soak.sanitize --submission solutions

For whoever runs the course: it needs a GPU and the program `compute-sanitizer`, which comes with CUDA's toolkit. The interpreter finds
races between programs of one launch; only this finds those inside a program, in shared memory, after the compiler has had its way.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from grader import devices
from grader.exits import EXIT_CALLER, EXIT_LAW_FAILED, EXIT_MACHINE

ROOT = Path(__file__).parents[2]
TOOLS = ("memcheck", "racecheck")
FOUND = 9  # the exit status that the tool gives to a program in which it found something
LIMIT_S = 600.0
# (queries, keys, heads, key heads, head dim, dtype, causal): blocks that do not divide, both dtypes, grouped heads
SHAPES = [(100, 100, 2, 2, 32, "float32", True), (65, 130, 4, 2, 64, "float16", False), (128, 128, 2, 1, 64, "bfloat16", True)]


def main() -> int:
    """0: nothing found; 1: something was; 2 and 4: it could not be tried."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--submission", type=Path, default=Path("solutions"))
    parser.add_argument("--drive", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    file = options.submission / "flash_attention.py"
    if options.drive:
        return drive(file)
    if not file.is_file():
        return said(f"{file} is not there: expected a submission to flash_attention.", EXIT_CALLER)
    program = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if program is None:
        return said("compute-sanitizer is not on the PATH: it comes with CUDA's toolkit. Nothing was checked.", EXIT_MACHINE)
    if not devices.found():
        return said("No GPU is here (nvidia-smi shows none). Nothing was checked.", EXIT_MACHINE)
    with devices.held(print):
        statuses = [sanitized(program, tool, file) for tool in TOOLS]
    return max(statuses)


def sanitized(program: str, tool: str, file: Path) -> int:
    """One tool over all shapes."""
    command = [program, "--tool", tool, "--error-exitcode", str(FOUND), "--print-limit", "20",
               sys.executable, "-m", "tests.soak.sanitize", "--drive", "--submission", str(file.parent)]  # fmt: skip
    # Without torch's cache every tensor is an allocation of its own, so that a step beyond one is seen.
    environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTHONPATH": str(ROOT)}
    try:
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return said(f"{tool}: not done after {LIMIT_S:.0f} s. Nothing is known.", EXIT_MACHINE)
    if run.returncode == 0:
        return said(f"{tool}: nothing found in {len(SHAPES)} forward and backward passes.", 0)
    text = f"{run.stdout}\n{run.stderr}".strip()
    if run.returncode == FOUND:
        return said(f"{tool} has found something:\n{text[-6000:]}", EXIT_LAW_FAILED)
    return said(f"{tool} could not run the program (exit status {run.returncode}):\n{text[-3000:]}", EXIT_MACHINE)


def drive(file: Path) -> int:
    """Forward and backward of every shape, on the GPU."""
    import torch

    sys.path[:0] = [str(file.parent.resolve()), str(ROOT / "solutions")]
    spec = importlib.util.spec_from_file_location("flash_attention", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["flash_attention"] = module
    spec.loader.exec_module(module)
    torch.manual_seed(1)
    for queries, keys, heads, kv_heads, head_dim, dtype, is_causal in SHAPES:
        q, k, v = (
            torch.randn(1, h, t, head_dim, device="cuda").to(getattr(torch, dtype)).requires_grad_()
            for h, t in ((heads, queries), (kv_heads, keys), (kv_heads, keys))
        )
        o = module.flash_attention(q, k, v, causal=is_causal)
        o.backward(torch.ones_like(o))
        torch.cuda.synchronize()
        if not all(bool(torch.isfinite(tensor).all()) for tensor in (o, q.grad, k.grad, v.grad)):
            print("a result is not finite")
            return EXIT_LAW_FAILED
    return 0


def said(sentence: str, status: int) -> int:
    """Print and give back."""
    print(sentence, flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
