"""The three fused operations on a GPU beside eager PyTorch, torch.compile and the measured bandwidth of a copy, in one run.

    python tests/benchmarks/fused_kernels_speed.py --out fused_kernels.json

bfloat16. Errors against float64 come first, in all dtypes, also of strided and empty tensors: a wrong kernel is not timed. Bytes are those
that one pass must move; `of_copy` is their bandwidth over that of a copy of the same tensor, timed in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from triton.testing import do_bench

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "solutions"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import fused_kernels

from lm.measuring import machine

WARMUP_MS, REPEAT_MS = 15, 60
# operation, shape, tensors of x's size that forward and backward must move
TIMED = (
    ("rms_norm", (65536, 4096), 2, 3),  # 0.5 GB each: a backward must take longer than the host needs to begin it
    ("rms_norm", (65536, 5000), 2, 3),
    ("rms_norm", (65536, 5120), 2, 3),
    ("rms_norm", (131072, 1600), 2, 3),
    ("bias_gelu", (16384, 16384), 2, 3),
    ("cross_entropy", (8192, 128256), 1, 2),
    ("cross_entropy", (16384, 50257), 1, 2),  # GPT-2's: every other row begins where no wider load may
    ("cross_entropy", (16384, 50304), 1, 2),  # the same, padded to a multiple of 64
)
CHECKED = {
    "rms_norm": ((300, 1000), (7, 16384), (5, 3), (0, 64)),
    "bias_gelu": ((300, 1000), (7, 16384), (5, 3), (0, 64)),
    "cross_entropy": ((33, 1000), (9, 128256), (5, 1), (16, 70001), (0, 50)),
}
Call = Callable[[Tensor, Tensor], Tensor]


def eager_rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """The formula, operation by operation."""
    wide = x if x.dtype == torch.float64 else x.float()
    return (wide * (wide.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * weight).to(x.dtype)


def eager_bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    """Two operations."""
    return F.gelu(x + bias, approximate="tanh")


def eager_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """As training programs write it."""
    return F.cross_entropy(logits if logits.dtype == torch.float64 else logits.float(), targets)


def peers(operation: str) -> dict[str, Call]:
    """Everything that is timed, the reference first."""
    eager = globals()[f"eager_{operation}"]
    found = {"reference": getattr(fused_kernels, operation), "eager": eager, "compiled": torch.compile(eager, dynamic=False)}
    if operation == "rms_norm":
        found["torch_fused"] = lambda x, weight: F.rms_norm(x, weight.shape, weight, 1e-6)
    return found


def inputs(
    operation: str, shape: tuple[int, int], dtype: torch.dtype, *, strided: bool = False, some_ignored: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """x, the second input, and the gradient that comes in; `some_ignored`: every third target doesn't count."""
    x = torch.randn(shape[0], shape[1] + 3 * strided, device="cuda", dtype=dtype)[:, : shape[1]]
    if operation == "cross_entropy":
        targets = torch.randint(0, shape[1], shape[:1], device="cuda")
        if some_ignored:  # never where time is taken: such rows aren't read
            targets[1::3] = -100
        return x.requires_grad_(), targets, torch.tensor(1.5, device="cuda")
    parameter, incoming = torch.randn(shape[1], device="cuda", dtype=dtype), torch.randn(shape, device="cuda", dtype=dtype)
    return x.requires_grad_(), parameter.requires_grad_(), incoming


def results(call: Call, x: Tensor, other: Tensor, incoming: Tensor) -> list[Tensor]:
    """The output and the gradients."""
    y = call(x, other)
    wanted = [each for each in (x, other) if each.requires_grad]
    return [y.detach(), *torch.autograd.grad(y, wanted, incoming.to(y.dtype))]


def relative_errors(operation: str, shape: tuple[int, int], dtype: torch.dtype, strided: bool) -> dict[str, list[float]]:
    """‖x − x64‖ / ‖x64‖ of the output and the gradients, of the reference and of eager PyTorch."""
    x, other, incoming = inputs(operation, shape, dtype, strided=strided, some_ignored=True)
    wide = [each.detach().double().requires_grad_() if each.is_floating_point() else each for each in (x, other)]
    eager = globals()[f"eager_{operation}"]
    exact = results(eager, *wide, incoming.double())
    if operation == "cross_entropy" and not shape[0]:  # torch's mean over nothing is NaN; ours is 0
        exact = [torch.zeros_like(each) for each in exact]
    told = {}
    for name, call in (("reference", getattr(fused_kernels, operation)), ("eager", eager)):
        found = results(call, x, other, incoming)
        told[name] = [((a.double() - b).norm() / b.norm().clamp(min=1e-30)).item() for a, b in zip(found, exact, strict=True)]
    return told


def check() -> list[dict[str, Any]]:
    """All operations, dtypes and layouts; AssertionError if the reference is wrong."""
    rows = []
    for operation, shapes in CHECKED.items():
        for dtype, allowed in ((torch.float32, 2e-6), (torch.float16, 1e-3), (torch.bfloat16, 8e-3)):
            for shape in shapes:
                for strided in (False, True):
                    errors = relative_errors(operation, shape, dtype, strided)
                    rows.append({"operation": operation, "shape": shape, "dtype": str(dtype), "strided": strided, "errors": errors})
                    assert all(error <= allowed for error in errors["reference"]), f"wrong: {rows[-1]}"
    return rows


def timed_ms(call: Callable[[], Any]) -> float:
    """The median."""
    return float(do_bench(call, warmup=WARMUP_MS, rep=REPEAT_MS, return_mode="median"))


def time_one(operation: str, shape: tuple[int, int], forward_tensors: int, backward_tensors: int) -> dict[str, Any]:
    """GB/s of each peer's passes, of a copy, and their ratios."""
    x, other, incoming = inputs(operation, shape, torch.bfloat16)
    num_bytes = x.numel() * x.element_size()
    copy_gb_per_s = 2 * num_bytes / timed_ms(partial(torch.empty_like(x).copy_, x.detach())) / 1e6
    told: dict[str, Any] = {"copy_gb_per_s": copy_gb_per_s}
    for name, call in peers(operation).items():
        try:
            y = call(x, other)
            wanted, d = [each for each in (x, other) if each.requires_grad], incoming.to(y.dtype)
            backward_ms = timed_ms(lambda y=y, wanted=wanted, d=d: torch.autograd.grad(y, wanted, d, retain_graph=True))
            del y
            forward_ms = timed_ms(lambda call=call: call(x, other))
        except Exception as lacking:
            told[name] = {"left_out": f"{type(lacking).__name__}: {lacking}"[:300]}
            continue
        speeds = {"forward": forward_tensors * num_bytes / forward_ms / 1e6, "backward": backward_tensors * num_bytes / backward_ms / 1e6}
        told[name] = {f"{which}_gb_per_s": speed for which, speed in speeds.items()}
        told[name] |= {f"{which}_of_copy": speed / copy_gb_per_s for which, speed in speeds.items()}
    return told


def main() -> None:
    """Check, time, write one JSON file, rewritten after every shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")) / "fused_kernels.json")
    options = parser.parse_args()
    torch.manual_seed(0)
    document: dict[str, Any] = machine(torch.device("cuda", 0)) | {"dtype": "bfloat16", "errors": check(), "shapes": []}
    print(f"{len(document['errors'])} cases are right", flush=True)
    for operation, shape, *tensors in TIMED:
        told = time_one(operation, shape, *tensors)
        document["shapes"].append({"operation": operation, "shape": shape, "measured": told})
        options.out.write_text(json.dumps(document, indent=1) + "\n")
        speeds = {name: each for name, each in told.items() if isinstance(each, dict)}
        shares = {n: m.get("left_out") or f"{m['forward_of_copy']:.2f}/{m['backward_of_copy']:.2f}" for n, m in speeds.items()}
        print(f"{operation} {shape}: copy {told['copy_gb_per_s']:.0f} GB/s; of it forward/backward", shares, flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
