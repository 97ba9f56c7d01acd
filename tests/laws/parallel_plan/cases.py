"""Models, clusters and plans by lot, and their way to a probe and back: dicts of the records' fields, as JSON in an array of bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grader.simulator import Cluster, Model, Plan

Array = NDArray[Any]
Case = dict[str, Any]
Draw = Callable[[np.random.Generator], Case]


# --- to a probe and back ---------------------------------------------------------------------------------------------
def packed(cases: list[Case]) -> Array:
    """The cases as one array."""
    return np.frombuffer(json.dumps(cases).encode(), np.uint8)


def inputs_of(draws: list[Draw]) -> Callable[[np.random.Generator], dict[str, Array]]:
    """What `observe` takes as inputs: every draw's case."""
    return lambda rng: {"cases": packed([draw(rng) for draw in draws])}


def cases_of(seen: Any) -> list[Case]:
    """The cases that an observation was made with."""
    return json.loads(bytes(seen.input("cases", 0)).decode())  # type: ignore[no-any-return]


def records_of(case: Case) -> tuple[Model, Cluster, Plan]:
    """The judge's own records of a case."""
    return Model(**case["model"]), Cluster(**case["cluster"]), Plan(**case["plan"])


# --- by lot ----------------------------------------------------------------------------------------------------------
def _between(rng: np.random.Generator, low: float, high: float) -> float:
    """A number whose logarithm is drawn evenly."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _one_of(rng: np.random.Generator, choices: tuple[Any, ...]) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _up_to(rng: np.random.Generator, most: int) -> int:
    return int(rng.integers(1, most + 1))


def lot(
    *,
    tp: tuple[int, ...] = (1, 2, 4),
    cp: tuple[int, ...] = (1, 2, 3),
    dp: tuple[int, ...] = (1, 2, 4, 6),
    pp: tuple[int, ...] = (1, 2, 3, 5),
    chunks: tuple[int, ...] = (1, 2, 3),
    experts: bool = False,
    zero: tuple[int, ...] = (0, 1, 2, 3),
    recompute: tuple[str, ...] = ("none", "full"),
    few: bool = False,
    tied: tuple[bool, ...] = (True, False),
    cluster: dict[str, float] | None = None,
) -> Draw:
    """Draw a case in which everything fits together: what each axis divides, it divides. few: fewer micro-batches than stages."""

    def draw(rng: np.random.Generator) -> Case:
        t, c, d, p = _one_of(rng, tp), _one_of(rng, cp), _one_of(rng, dp), _one_of(rng, pp)
        v = _one_of(rng, chunks) if p > 1 and not few else 1
        kv_heads, head_dim = t * _up_to(rng, 3), _one_of(rng, (32, 64, 128))
        heads = kv_heads * _up_to(rng, 3)
        ep = _one_of(rng, tuple(size for size in range(1, d + 1) if d % size == 0)) if experts else 1
        num_experts = ep * _up_to(rng, 3) * (1 if ep > 1 else 2) if experts else 1
        micro_batches = _up_to(rng, max(1, p - 1)) if few else p * _up_to(rng, 3) + (int(rng.integers(0, p)) if v == 1 else 0)
        micro_batch = _up_to(rng, 4)
        per_stage = p * v
        model = {
            "num_layers": per_stage * _up_to(rng, 3) + (int(rng.integers(0, per_stage)) if v == 1 else 0),
            "hidden_size": heads * head_dim,
            "num_heads": heads,
            "num_kv_heads": kv_heads,
            "mlp_size": t * 16 * _up_to(rng, 200),
            "vocab_size": int(rng.integers(1000, 130_000)),
            "sequence": 2 * c * t * int(rng.integers(16, 700)),
            "global_batch": d * micro_batch * micro_batches,
            **{name: bool(rng.integers(2)) for name in ("gated", "bias", "rotary")},
            "tied": bool(_one_of(rng, tied)),
            "num_experts": num_experts,
            "top_k": _up_to(rng, min(3, num_experts)),
        }
        world = t * c * d * p
        per_node = _one_of(rng, tuple(size for size in (1, 2, 3, 4, 6, 8) if world % size == 0))
        plan = {
            "dp": d, "tp": t, "pp": p, "cp": c, "ep": ep, "micro_batch": micro_batch, "num_micro_batches": micro_batches,
            "zero_stage": _one_of(rng, tuple(stage for stage in zero if p == 1 or stage <= 1) or (1,)),
            "recompute": _one_of(rng, recompute),
            "schedule": "interleaved" if v > 1 else "1f1b", "chunks": v, "sequence_parallel": t > 1, "gradient_bytes": 4,
        }  # fmt: skip
        return {"model": model, "cluster": _cluster(rng, world // per_node, per_node) | (cluster or {}), "plan": plan}

    return draw


def _cluster(rng: np.random.Generator, num_nodes: int, per_node: int) -> Case:
    """Links and rates of any GPU, so that everything can be what binds."""
    return {
        "num_nodes": num_nodes, "gpus_per_node": per_node, "gpu": "drawn by lot", "flops_per_s": _between(rng, 1e13, 2e15),
        "memory_bytes": _between(rng, 1e10, 2e11), "memory_bytes_per_s": _between(rng, 2e11, 8e12),
        "intra_latency_s": _between(rng, 1e-6, 3e-5), "intra_bytes_per_s": _between(rng, 1e10, 9e11),
        "inter_latency_s": _between(rng, 5e-6, 1e-4), "inter_bytes_per_s": _between(rng, 1e9, 1e11),
    }  # fmt: skip


DENSE = lot()
PLAIN_PIPELINE = lot(pp=(2, 3, 5), chunks=(1,), zero=(0, 1))
INTERLEAVED = lot(pp=(2, 3, 4), chunks=(2, 3), zero=(0, 1))
FEW = lot(pp=(3, 5, 6), few=True, zero=(0, 1))
NO_PIPELINE = lot(pp=(1,))
EXPERTS = lot(experts=True)
MANY_EXPERTS = lot(experts=True, dp=(4, 6, 8), pp=(1, 2))
WIDE_CONTEXT = lot(cp=(2, 4, 5), pp=(1, 2))
DENSE_ONLY = [*[DENSE] * 8, *[PLAIN_PIPELINE] * 6, *[INTERLEAVED] * 6, *[FEW] * 4, *[NO_PIPELINE] * 8, *[WIDE_CONTEXT] * 4]
ALL = [*DENSE_ONLY, *[EXPERTS] * 6, *[MANY_EXPERTS] * 6]


# --- in words --------------------------------------------------------------------------------------------------------
def in_words(case: Case) -> str:
    """The settings that matter, for a message."""
    plan, model, cluster = case["plan"], case["model"], case["cluster"]
    sizes = ", ".join(f"{axis} {plan[axis]}" for axis in ("tp", "cp", "dp", "pp", "ep") if plan[axis] > 1) or "one rank"
    rest = [f"{plan['num_micro_batches']} micro-batches of {plan['micro_batch']}", f"ZeRO {plan['zero_stage']}"]
    rest += [f"{plan['chunks']} chunks"] * (plan["chunks"] > 1) + ["full recomputation"] * (plan["recompute"] == "full")
    rest += [f"{model['num_experts']} experts, top {model['top_k']}"] * (model["num_experts"] > 1)
    return f"{sizes}; {', '.join(rest)}; {model['num_layers']} layers; {cluster['gpus_per_node']} GPUs per node"


def traits(case: Case) -> dict[str, bool]:
    """What may tell wrong cases from right ones."""
    plan, model, cluster = case["plan"], case["model"], case["cluster"]
    inner = plan["tp"] * plan["cp"]
    return {
        **{f"{axis} > 1": plan[axis] > 1 for axis in ("tp", "cp", "dp", "pp", "ep")},
        **{f"{axis} = 1": plan[axis] == 1 for axis in ("tp", "cp", "dp", "pp", "ep")},
        "pp = 2": plan["pp"] == 2,
        "pp > 2": plan["pp"] > 2,
        "interleaved chunks": plan["chunks"] > 1,
        "no interleaving": plan["chunks"] == 1,
        "full recomputation": plan["recompute"] == "full",
        "no recomputation": plan["recompute"] == "none",
        **{f"ZeRO {stage}": plan["zero_stage"] == stage for stage in range(4)},
        "ZeRO 1, 2 or 3": plan["zero_stage"] > 0,
        "ZeRO 2 or 3": plan["zero_stage"] > 1,
        "experts": model["num_experts"] > 1,
        "no experts": model["num_experts"] == 1,
        **{f"a {name} model": model[name] for name in ("gated", "tied", "rotary")},
        "an untied head": not model["tied"],
        "one micro-batch": plan["num_micro_batches"] == 1,
        "several micro-batches": plan["num_micro_batches"] > 1,
        "fewer micro-batches than stages": plan["num_micro_batches"] < plan["pp"],
        "layers that pp does not divide": model["num_layers"] % plan["pp"] > 0,
        "shared key/value heads": model["num_kv_heads"] < model["num_heads"],
        "replicas on several nodes": inner * plan["dp"] > cluster["gpus_per_node"],
    }
