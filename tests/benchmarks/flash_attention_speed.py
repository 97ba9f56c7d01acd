"""Forward and backward of the reference FlashAttention on a GPU, with its forward for Hopper, beside torch's own attentions, in one run.

    python tests/benchmarks/flash_attention_speed.py --out flash_attention.json
    python tests/benchmarks/flash_attention_speed.py --one-pass     # with the experimental backward beside them

bfloat16, causal, batch × tokens = 16384. The backward counts as 2.5 forwards (five matrix products for two). Errors come first: a kernel
that is wrong is not timed. Peers that this torch or GPU lacks are left out by name.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from triton.testing import do_bench

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "solutions"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from flash_attention import flash_attention

from lm.measuring import machine
from tests.benchmarks import flash_attention_hopper, flash_attention_hopper_backward

NUM_TOKENS_IN_ALL = 16384
SHAPES = [(heads, head_dim, tokens) for heads, head_dim in ((32, 64), (16, 128)) for tokens in (1024, 4096, 16384)]
OURS = ["reference", "hopper"]
ONE_PASS = "one_pass"
WARMUP_MS, REPEAT_MS = 40, 160
Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def with_backend(backend: SDPBackend) -> Attention:
    """torch's scaled_dot_product_attention, held to one backend."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    return attend


def flex(tokens: int) -> Attention:
    """FlexAttention, compiled for a causal block mask."""
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, tokens, tokens, device="cuda")
    compiled = torch.compile(flex_attention)
    return lambda q, k, v: compiled(q, k, v, block_mask=mask)


def peers(tokens: int) -> dict[str, Attention]:
    """All that may be timed at this length, the reference first. "hopper" has a forward of its own, "one_pass" a backward too."""
    return {
        "reference": lambda q, k, v: flash_attention(q, k, v, causal=True),
        "hopper": lambda q, k, v: flash_attention_hopper.flash_attention(q, k, v, causal=True),
        ONE_PASS: lambda q, k, v: flash_attention_hopper_backward.flash_attention(q, k, v, causal=True),
        "sdpa_flash": with_backend(SDPBackend.FLASH_ATTENTION),
        "sdpa_cudnn": with_backend(SDPBackend.CUDNN_ATTENTION),
        "flex": flex(tokens),
    }


def relative_errors(attend: Attention, shape: tuple[int, ...], dtype: torch.dtype) -> dict[str, float]:
    """‖x − x64‖ / ‖x64‖ of the output and of each gradient, against dense attention in float64."""
    q, k, v = (torch.randn(shape, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3))
    upstream = torch.randn(shape, device="cuda", dtype=dtype)
    out = attend(q, k, v)
    gradients = torch.autograd.grad(out, (q, k, v), upstream)
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    scores = exact[0] @ exact[1].mT / shape[-1] ** 0.5
    scores = scores.masked_fill(~torch.ones(scores.shape[-2:], device="cuda", dtype=torch.bool).tril(), -torch.inf)
    expected = scores.softmax(-1) @ exact[2]
    wanted = [expected, *torch.autograd.grad(expected, exact, upstream.double())]
    names = ("o", "dq", "dk", "dv")
    return {n: ((x.double() - w).norm() / w.norm()).item() for n, x, w in zip(names, [out, *gradients], wanted, strict=True)}


def time_one(attend: Attention, heads: int, head_dim: int, tokens: int) -> dict[str, float]:
    """TFLOP/s of the forward and of the backward."""
    shape = (NUM_TOKENS_IN_ALL // tokens, heads, tokens, head_dim)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    upstream = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    flops = 4 * shape[0] * heads * tokens * tokens * head_dim / 2  # two products; the causal half
    with torch.no_grad():
        forward_ms = do_bench(lambda: attend(q, k, v), warmup=WARMUP_MS, rep=REPEAT_MS, return_mode="median")
    out = attend(q, k, v)
    backward_ms = do_bench(
        lambda: torch.autograd.grad(out, (q, k, v), upstream, retain_graph=True), warmup=WARMUP_MS, rep=REPEAT_MS, return_mode="median"
    )
    return {"forward_tflop_per_s": flops / forward_ms / 1e9, "backward_tflop_per_s": 2.5 * flops / backward_ms / 1e9}


def main() -> None:
    """Check, time, write one JSON file, rewritten after every shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")) / "flash_attention.json")
    parser.add_argument("--one-pass", action="store_true", help="check and time the backward in one pass as well")
    options = parser.parse_args()
    ours = [*OURS, ONE_PASS] if options.one_pass else OURS
    torch.manual_seed(0)
    document: dict[str, Any] = machine(torch.device("cuda", 0)) | {"dtype": "bfloat16", "causal": True, "errors": {}, "shapes": []}
    for shape in ((2, 4, 1024, 64), (2, 4, 1024, 128), (1, 2, 777, 64), (1, 2, 300, 96)):
        errors = {}
        checked = {name: peers(shape[2])[name] for name in ours}
        for name, attend in (checked | {"sdpa_math": with_backend(SDPBackend.MATH)}).items():
            errors[name] = relative_errors(attend, shape, torch.bfloat16)
        document["errors"]["x".join(map(str, shape))] = errors
        print(shape, {name: {part: f"{error:.1e}" for part, error in each.items()} for name, each in errors.items()}, flush=True)
        assert all(error < 2e-2 for name in ours for error in errors[name].values()), "wrong: not timed"
    for heads, head_dim, tokens in SHAPES:
        measured: dict[str, Any] = {}
        torch._dynamo.reset()  # FlexAttention's recompilations are counted over all shapes
        for name, attend in peers(tokens).items():
            if name == ONE_PASS and name not in ours:
                continue
            try:
                measured[name] = time_one(attend, heads, head_dim, tokens)
            except Exception as lacking:
                measured[name] = {"left_out": f"{type(lacking).__name__}: {lacking}"[:300]}
        document["shapes"].append({"heads": heads, "head_dim": head_dim, "tokens": tokens, "measured": measured})
        options.out.write_text(json.dumps(document, indent=1) + "\n")
        line = {n: "/".join(f"{x:.0f}" for x in m.values()) if "left_out" not in m else m["left_out"][:40] for n, m in measured.items()}
        print(f"D={head_dim} T={tokens:5}", line, flush=True)


if __name__ == "__main__":
    main()
