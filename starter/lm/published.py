"""What others reached on the same ladder or with the same model, each with its source: facts to hold a report against."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """One published run of GPT-2 124M at a sequence of 1024 tokens."""

    who: str
    gpu: str  # a row of lm.hardware.HARDWARE
    num_gpus: int
    tokens_per_s: float  # of all GPUs
    precision: str
    counts: str  # whose FLOPs: a name of CONVENTIONS
    source: str


LECTURE = "summaries of the build-nanogpt lecture by third parties; approximate"
# fmt: off
GPT2_124M: tuple[Published, ...] = (
    Published("llm.c, 0.300 s for 524288 tokens", "A100 SXM 80GB", 8, 524288 / 0.300, "bf16", "llm.c",
              "karpathy/llm.c scripts/run_gpt2_124M.sh"),
    Published("nanoGPT, 0.562 s for 491520 tokens", "A100 SXM 40GB", 8, 491520 / 0.562, "bf16", "nanoGPT",
              "karpathy/nanoGPT issue 110"),
    Published("modded-nanogpt, first record: 0.138 s for 524288 tokens", "H100 SXM 80GB", 8, 524288 / 0.138, "bf16", "llm.c",
              "KellerJordan/modded-nanogpt README, 45 min for 19560 steps"),
)
# The same ladder on one A100, in the order that was taken there: compilation before fused attention. Names are those of our rungs.
LECTURE_LADDER: tuple[tuple[str, float], ...] = (
    ("fp32", 16_000), ("tf32", 49_000), ("bf16", 54_500), ("compiled", 126_000), ("fused_attention", 170_000),
    ("padded_vocabulary", 175_000),
)
# fmt: on
# Why the same model reaches another share elsewhere; figures are of the rows above and of lm/hardware.py.
DIFFERENCES = (
    "Counts apart, a newer GPU shows a smaller share of its peak: from A100 to H200 products became 3.2 times as fast and memory 2.4 "
    "times, so what only moves bytes takes more of the step. The same program, llm.c, went from 56% on A100 to 39% on H100.",
    "llm.c has kernels written for this model and adds its layers up in bf16, as our rung narrow_stream does; nanoGPT adds in fp32, "
    "and its figure is of 12 sequences at a time on 40 GB, five times for each step.",
    "The lecture compiled before it fused attention. Whichever comes second finds less left to save, so each of the two has another "
    "factor here, and only their product can be compared.",
)


def conventions(num_parameters: int, num_positions: int, layers_heads_dims: int, sequence: int) -> dict[str, float]:
    """Return FLOPs per token as others count them, by name; layers_heads_dims is L · H · D.

    nanoGPT (model.py, estimate_mfu): parameters without positions, and all of attention; as PaLM, appendix B. llm.c (train_gpt2.cu): all
    parameters, and half of attention. llm-foundry (scripts/train/benchmarking/README.md): all parameters, and all of attention.
    """
    attention = 12 * layers_heads_dims * sequence
    return {
        "nanoGPT": 6 * (num_parameters - num_positions) + attention,
        "llm.c": 6 * num_parameters + attention / 2,
        "llm-foundry": 6 * num_parameters + attention,
    }
