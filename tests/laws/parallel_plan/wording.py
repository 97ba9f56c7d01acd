"""The laws of settings: each library's own keys, as section 8 has them, and the products that must come out.

Names and versions: DeepSpeed 0.19.6 (deepspeed/runtime: constants.py, precision_config.py, config.py of zero and activation_checkpointing),
Megatron-LM core_v0.12.0 (megatron/training/arguments.py), torch 2.13.0 (fully_shard), torchtitan v0.2.2 (torchtitan/config/job_config.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from grader.simulator import Plan
from tests.laws.parallel_plan.cases import Case, Draw, cases_of, inputs_of
from tests.laws.parallel_plan.judging import refused
from tests.laws.sentences import broken

Settings = Any
Flags = dict[str, str | None]

# Real names that belong elsewhere, or did once; each completes "... is ".
ELSEWHERE = {
    "world_size": "nothing that DeepSpeed reads: the launcher knows it",
    "data_parallel_size": "no key of DeepSpeed: it follows from the world",
    "tensor_parallel_size": "no key of DeepSpeed's configuration",
    "partitioned_activations": "a misspelling in DeepSpeed's own docstring of partition_activations",
    "cpu_offload": "deprecated for offload_optimizer",
    "fp16_enabled": "DeepSpeed's {'fp16': {'enabled': ...}} in one word",
    "--data-parallel-size": "no flag of Megatron-LM: it follows from the world",
    "--num-microbatches": "no flag of Megatron-LM: it follows from the batch sizes",
    "--num-micro-batches": "no flag of Megatron-LM: it follows from the batch sizes",
    "--num-layers-per-virtual-pipeline-stage": "the flag that counts layers, not chunks",
    "--checkpoint-activations": "the old name of --recompute-granularity full",
    "--activations-checkpoint-method": "the old name of --recompute-method",
    "--model-parallel-size": "the old name of --tensor-model-parallel-size",
    "--virtual-pipeline-model-parallel-size": "a field of Megatron's dataclass, not a flag of core_v0.12.0",
    "--use-megatron-fsdp": "the later name of --use-custom-fsdp",
    "--tensor-parallel-size": "no flag of Megatron-LM: --tensor-model-parallel-size",
    "--pipeline-parallel-size": "no flag of Megatron-LM: --pipeline-model-parallel-size",
    "gradient_accumulation_steps": "a key of DeepSpeed; torchtitan derives it",
    "sharding_strategy": "FSDP1's",
    "num_pp_microbatches": "torchtitan's of August 2026, not of v0.2.2",
    "dp_replicate": "the mesh's name; the key is data_parallel_replicate_degree",
    "dp_shard": "the mesh's name; the key is data_parallel_shard_degree",
}


# --- plans -----------------------------------------------------------------------------------------------------------
def a_plan(*, zero: tuple[int, ...] = (0, 1, 2, 3), pipeline: bool | None = None, interleaved: bool | None = None) -> Draw:
    """Any plan whose sizes can be told apart."""

    def draw(rng: np.random.Generator) -> Case:
        p = int(rng.integers(2, 9)) if (rng.integers(2) if pipeline is None else pipeline) else 1
        v = int(rng.integers(2, 5)) if p > 1 and (rng.integers(2) if interleaved is None else interleaved) else 1
        stages = [stage for stage in zero if p == 1 or stage <= 1] or [1]
        e = int(rng.choice([1, 2, 4]))
        t = int(rng.choice([1, 2, 4, 8]))
        plan = Plan(
            e * int(rng.integers(1, 12)), t, p, int(rng.choice([1, 2, 3])), e, int(rng.integers(1, 9)),
            p * int(rng.integers(1, 9)), int(rng.choice(stages)), ("none", "full")[int(rng.integers(2))],
            "interleaved" if v > 1 else "1f1b", v, t > 1, 4,
        )  # fmt: skip
        return {"plan": asdict(plan)}

    return draw


# --- what section 8 says ---------------------------------------------------------------------------------------------
def deepspeed(plan: Plan, precision: str) -> Settings:
    """The JSON."""
    config: dict[str, Any] = {
        "train_batch_size": plan.dp * plan.micro_batch * plan.num_micro_batches,
        "train_micro_batch_size_per_gpu": plan.micro_batch,
        "gradient_accumulation_steps": plan.num_micro_batches,
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": plan.zero_stage, "overlap_comm": True},
        precision: {"enabled": True} | ({"loss_scale": 0} if precision == "fp16" else {}),
    }
    if plan.cp > 1:
        config["sequence_parallel_size"] = plan.cp
    if plan.recompute == "full":
        config["activation_checkpointing"] = {"partition_activations": False}
    return config


def megatron(plan: Plan, precision: str) -> Flags:
    """Flag → value, None for a switch."""
    flags: Flags = {
        "--tensor-model-parallel-size": str(plan.tp),
        "--pipeline-model-parallel-size": str(plan.pp),
        "--context-parallel-size": str(plan.cp),
        "--expert-model-parallel-size": str(plan.ep),
        "--micro-batch-size": str(plan.micro_batch),
        "--global-batch-size": str(plan.global_batch),
    }
    switches = [f"--{precision}", "--accumulate-allreduce-grads-in-fp32", "--overlap-grad-reduce"]
    switches += ["--sequence-parallel"] * (plan.tp > 1) + ["--use-custom-fsdp"] * (plan.zero_stage > 1)
    switches += ["--use-distributed-optimizer", "--overlap-param-gather"] * (plan.zero_stage > 0)
    flags |= dict.fromkeys(switches)
    if plan.chunks > 1:
        flags["--num-virtual-stages-per-pipeline-rank"] = str(plan.chunks)
    if plan.ep > 1:
        flags["--moe-token-dispatcher-type"] = "alltoall"
    if plan.recompute == "full":
        flags |= {"--recompute-granularity": "full", "--recompute-method": "uniform", "--recompute-num-layers": "1"}
    if plan.zero_stage > 1:
        flags["--data-parallel-sharding-strategy"] = "optim_grads" if plan.zero_stage == 2 else "optim_grads_params"
    return flags


def torchtitan(plan: Plan, precision: str) -> Settings:
    """FSDP2's keywords and torchtitan's sections."""
    sharded = plan.zero_stage > 0
    parallelism: dict[str, Any] = {
        "data_parallel_replicate_degree": 1 if sharded else plan.dp,
        "data_parallel_shard_degree": plan.dp if sharded else 1,
        "tensor_parallel_degree": plan.tp,
        "pipeline_parallel_degree": plan.pp,
        "context_parallel_degree": plan.cp,
        "expert_parallel_degree": plan.ep,
    }
    if sharded:
        parallelism["fsdp_reshard_after_forward"] = "always" if plan.zero_stage == 3 else "never"
    if plan.pp > 1:
        parallelism["pipeline_parallel_schedule"] = "1F1B" if plan.chunks == 1 else "Interleaved1F1B"
        parallelism["pipeline_parallel_microbatch_size"] = plan.micro_batch
    policy = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}
    return {
        "fully_shard": {"reshard_after_forward": plan.zero_stage == 3, "mp_policy": policy} if sharded else None,
        "torchtitan": {
            "parallelism": parallelism,
            "training": {
                "local_batch_size": plan.micro_batch * (plan.num_micro_batches if plan.pp > 1 else 1),
                "global_batch_size": plan.global_batch,
                "mixed_precision_param": "bfloat16",
                "mixed_precision_reduce": "float32",
            },
            "activation_checkpoint": {"mode": plan.recompute},
        },
    }


# --- judging ---------------------------------------------------------------------------------------------------------
EXPECTED: dict[str, Callable[[Plan, str], Settings]] = {
    "deepspeed_config": deepspeed, "megatron_arguments": megatron, "fsdp2_settings": torchtitan
}  # fmt: skip


def judge(observe: Any, function: str, draws: Sequence[Draw], *, precision: str = "bf16", **case: Any) -> None:
    """The settings of each plan are section 8's, key by key."""
    seen = observe("settings", transport="none", inputs=inputs_of(list(draws)), function=function, precision=precision, **case)
    for each, got in zip(cases_of(seen), seen.facts(0)["settings"], strict=True):
        plan = Plan(**each["plan"])
        where = f"{function} of {_words(plan)}, {precision}"
        if function == "megatron_arguments":
            got = _flags(got, where)
        differences = list(_differences(EXPECTED[function](plan, precision), got, ""))
        if not differences:
            continue
        sort, key, right, found = differences[0]
        told = {"missing": f"has no {key}", "extra": f"has {key}", "value": f"has {key} = {found!r}"}[sort]
        allowed = f"Expected: {'no such key' if sort == 'extra' else f'{key} = {right!r}' if right is not None else key}."
        others = ", ".join(f"{other} ({kind})" for kind, other, _, _ in differences[1:5])
        diagnosis = [_why(sort, key, right, found, plan), f"Also off: {others}." if others else ""]
        suggestion = "Section 8 has every key, its condition and its value. An unknown key stops a library, or is silently ignored."
        raise broken(f"{where}, {told}.", allowed, " ".join(part for part in diagnosis if part), suggestion)


def _flags(arguments: Any, where: str) -> Flags:
    """Megatron-LM's list as a table."""
    why = "A list of strings, as a shell would hand them over: flags and values one by one."
    if not isinstance(arguments, list) or not all(isinstance(word, str) for word in arguments):
        raise broken(f"{where}, is no list of strings.", "Expected: a list of strings.", f"It is {str(arguments)[:80]}.", why)
    flags: Flags = {}
    for place, word in enumerate(arguments):
        if word.startswith("--"):
            if word in flags:
                raise broken(f"{where}, has {word} twice.", "Expected: each flag once.", f"{word} is there twice.", why)
            after = arguments[place + 1] if place + 1 < len(arguments) else "--"
            flags[word] = None if after.startswith("--") else after
        elif place == 0 or not arguments[place - 1].startswith("--"):
            raise broken(f"{where}, has {word!r} after no flag.", "Expected: flags and values.", f"{word!r} belongs to no flag.", why)
    return flags


def _differences(right: Any, got: Any, path: str) -> Any:
    """(sort, key, expected, found) for each key that is off."""
    if isinstance(right, Mapping) and isinstance(got, Mapping):
        for key in [*right, *(key for key in got if key not in right)]:
            name = f"{path}.{key}" if path else str(key)
            if key not in got:
                yield "missing", name, right[key], None
            elif key not in right:
                yield "extra", name, None, got[key]
            else:
                yield from _differences(right[key], got[key], name)
    elif right != got or isinstance(right, bool) != isinstance(got, bool):
        yield "value", path or "the whole", right, got


def _why(sort: str, key: str, right: Any, found: Any, plan: Plan) -> str:
    """What a wrong key is, or what a wrong number would be instead."""
    last = key.rsplit(".", 1)[-1]
    if sort == "extra":
        return f"{last} is {ELSEWHERE.get(last, 'not among the keys of section 8 for this plan')}."
    if sort == "missing":
        return f"{last} is missing."
    number = int(found) if isinstance(found, str) and found.isdigit() else found
    if not isinstance(number, int) or isinstance(number, bool):
        return f"{last} is off."
    b, M, d = plan.micro_batch, plan.num_micro_batches, plan.dp
    known = {
        "micro-batch times accumulation: dp is missing": b * M,
        "micro-batch times dp: the accumulation is missing": b * d,
        "micro-batch times accumulation times the world, in place of times dp": b * M * plan.num_gpus,
        "micro-batch times accumulation times dp x cp: ranks of cp see the same sequences": b * M * d * plan.cp,
        "the micro-batch": b,
        "the number of micro-batches": M,
        "the global batch": plan.global_batch,
        "the world": plan.num_gpus,
        "dp": d,
        "dp x cp": d * plan.cp,
        "pp x chunks": plan.pp * plan.chunks,
        "dp without ep": d // plan.ep,
    }
    meant = next((name for name, value in known.items() if value == number), "")
    return f"{last} is {meant}." if meant else f"{last} is off."


def judge_refusals(observe: Any, calls: Sequence[tuple[str, str, Draw, str]], **case: Any) -> None:
    """Each call of (function, precision, plan, words) is refused with ValueError."""
    asked = [[function, precision] for function, precision, _, _ in calls]
    seen = observe("settings_refused", transport="none", inputs=inputs_of([draw for _, _, draw, _ in calls]), calls=asked, **case)
    told = [words for *_, words in calls]
    refused(seen, "the settings", told, "A setting that is silently dropped becomes another run than the one that was planned.")


def _words(plan: Plan) -> str:
    sizes = ", ".join(f"{axis} {getattr(plan, axis)}" for axis in ("dp", "tp", "pp", "cp", "ep"))
    rest = f"micro_batch {plan.micro_batch}, num_micro_batches {plan.num_micro_batches}, ZeRO {plan.zero_stage}, chunks {plan.chunks}"
    return f"{sizes}, {rest}, recompute {plan.recompute!r}"
