"""Models and clusters that plans are asked for.

Sizes: Narayanan et al. 2021, table 1 (GPT, vocabulary 51 200, 2048 tokens); Llama Team 2024, tables 3 and 4; Jiang et al. 2024, table 1
(Mixtral 8x7B). The clusters and their sources: grader/simulator/clusters.py.
"""

from __future__ import annotations

from dataclasses import asdict, replace

from grader.simulator import Cluster, Model, dgx_a100, h100, slow_network, two_t4
from tests.laws.parallel_plan.cases import Case, Draw

Pair = tuple[Model, Cluster]


def gpt(num_layers: int, hidden_size: int, num_heads: int, batch: int, *, sequence: int = 2048, vocab: int = 51_200) -> Model:
    """GPT-2's kind."""
    return Model(num_layers, hidden_size, num_heads, num_heads, 4 * hidden_size, vocab, sequence, batch)


def llama(num_layers: int, hidden_size: int, num_heads: int, mlp_size: int, batch: int, *, sequence: int = 8192) -> Model:
    """Llama 3's kind: 8 key/value heads."""
    return Model(
        num_layers, hidden_size, num_heads, 8, mlp_size, 128_256, sequence, batch, gated=True, tied=False, bias=False, rotary=True
    )  # fmt: skip


def mixture(model: Model, num_experts: int, top_k: int) -> Model:
    """The same with several MLPs in each layer."""
    return replace(model, num_experts=num_experts, top_k=top_k)


PUBLIC: dict[str, Pair] = {
    "GPT 1.7B on 32 A100 (Megatron-LM's table 1)": (gpt(24, 2304, 24, 512), dgx_a100(4)),
    "GPT 39.1B on 512 A100 (Megatron-LM's table 1)": (gpt(48, 8192, 64, 1536), dgx_a100(64)),
    "GPT 145.6B on 1536 A100 (Megatron-LM's table 1)": (gpt(80, 12288, 96, 2304), dgx_a100(192)),
    "Llama 3 405B on 16384 H100 (table 4, 8 k tokens)": (llama(126, 16384, 128, 53248, 2048), h100(2048)),
    "Llama 3 8B on one node of eight H100": (llama(32, 4096, 32, 14336, 64), h100(1)),
    "GPT 1.3B on four nodes with a slow network": (gpt(24, 2048, 16, 512), slow_network(4)),
    "GPT 355M on two T4": (gpt(24, 1024, 16, 64, sequence=1024, vocab=50_257), two_t4()),
}
# No plan fits, and why.
REFUSED: dict[str, Pair] = {
    "states: GPT 145.6B on one node of eight A100": (gpt(80, 12288, 96, 64), dgx_a100(1)),
    "activations: GPT 124M with 262144 tokens on one T4": (
        gpt(12, 768, 12, 1, sequence=262_144, vocab=50_257),
        replace(two_t4(), gpus_per_node=1),
    ),
    "shape: 7 sequences on eight A100, for a model of 5 layers and 5 heads": (gpt(5, 640, 5, 7, sequence=1023), dgx_a100(1)),
}


def drawn(pair: Pair) -> Draw:
    """The pair as a case that no lot decides."""
    model, cluster = pair
    return lambda _rng: {"model": asdict(model), "cluster": asdict(cluster)}


def records(case: Case) -> Pair:
    """The pair of a case."""
    return Model(**case["model"]), Cluster(**case["cluster"])


# Whose reasons are asked: the fastest candidate that has these sizes.
Wanted = tuple[Pair, dict[str, int]]
NODE, SLOW = PUBLIC["Llama 3 8B on one node of eight H100"], PUBLIC["GPT 1.3B on four nodes with a slow network"]
ONE_KEY_HEAD = (replace(gpt(2, 512, 8, 64, sequence=1024), num_kv_heads=1), dgx_a100(1))  # neither tp nor cp, and hardly pp
MIXTURE = (mixture(gpt(8, 1024, 8, 32), 8, 2), dgx_a100(1))
TOO_BIG_ALONE = (gpt(40, 6144, 48, 96), dgx_a100(2))
ASKED: list[Wanted] = [
    (NODE, {}), (NODE, {"tp": 2}), (SLOW, {"pp": 4}), (ONE_KEY_HEAD, {"dp": 8}), (MIXTURE, {"ep": 4, "pp": 2}), (TOO_BIG_ALONE, {}),
]  # fmt: skip
