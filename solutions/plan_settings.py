"""The same plan in three libraries' own words: DeepSpeed's JSON, Megatron-LM's arguments, and FSDP2 with torchtitan's sections.

Names are those of DeepSpeed 0.19.6, Megatron-LM core_v0.12.0, torch 2.13.0 and torchtitan v0.2.2. What a library cannot do is a ValueError.
"""

from __future__ import annotations

from typing import Any, Literal

from lm.planning import Plan

Precision = Literal["bf16", "fp16"]


# --- task settings ---------------------------------------------------------------------------------------------------
def deepspeed_config(plan: Plan, *, precision: Precision = "bf16") -> dict[str, Any]:
    """Return the configuration file of DeepSpeed as a dict that json can write.

    tp, pp and ep are no keys: there they are objects of the program. ValueError for an interleaved plan: DeepSpeed has none.
    """
    # region solution deepspeed_config
    if plan.chunks > 1:
        raise ValueError(f"DeepSpeed's pipeline engine knows 1F1B only, not {plan.chunks} chunks a stage")
    config: dict[str, Any] = {
        # It checks this product itself, and refuses to start when it is off. dp: ranks that see other sequences, cp not among them.
        "train_batch_size": plan.global_batch,
        "train_micro_batch_size_per_gpu": plan.micro_batch,
        "gradient_accumulation_steps": plan.num_micro_batches,
        # Its default has been both 0 and 1; who cares for reproducible runs says it.
        "gradient_clipping": 1.0,
        # The default of overlap_comm depends on the stage.
        "zero_optimization": {"stage": plan.zero_stage, "overlap_comm": plan.overlap},
    }
    # bf16 needs no loss scaling; 0 stands for a dynamic scale.
    config[precision] = {"enabled": True} if precision == "bf16" else {"enabled": True, "loss_scale": 0}
    if plan.cp > 1:
        config["sequence_parallel_size"] = plan.cp
    if plan.recompute == "full":
        # Which layers are checkpointed is written in the program; this says whether tp ranks share what is kept.
        config["activation_checkpointing"] = {"partition_activations": False}
    return config
    # endregion


def megatron_arguments(plan: Plan, *, precision: Precision = "bf16") -> list[str]:
    """Return the command line of Megatron-LM that concerns the plan: flags and their values, one string each. dp follows from the world."""
    # region solution megatron_arguments
    numbers = {
        "--tensor-model-parallel-size": plan.tp,
        "--pipeline-model-parallel-size": plan.pp,
        "--context-parallel-size": plan.cp,
        "--expert-model-parallel-size": plan.ep,
        "--micro-batch-size": plan.micro_batch,
        "--global-batch-size": plan.global_batch,  # the number of micro-batches follows
    }
    arguments = [word for flag, number in numbers.items() for word in (flag, str(number))]
    arguments.append(f"--{precision}")
    if plan.sequence_parallel:
        arguments.append("--sequence-parallel")
    if plan.chunks > 1:
        arguments += ["--num-virtual-stages-per-pipeline-rank", str(plan.chunks)]
    if plan.ep > 1:
        # The default gathers all tokens on all ranks.
        arguments += ["--moe-token-dispatcher-type", "alltoall"]
    if plan.gradient_bytes == 4:
        arguments.append("--accumulate-allreduce-grads-in-fp32")
    if plan.recompute == "full":
        arguments += ["--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers", "1"]
    if plan.zero_stage == 1:
        arguments.append("--use-distributed-optimizer")
    elif plan.zero_stage > 1:
        strategy = {2: "optim_grads", 3: "optim_grads_params"}[plan.zero_stage]
        arguments += ["--use-distributed-optimizer", "--use-custom-fsdp", "--data-parallel-sharding-strategy", strategy]
    if plan.overlap:
        arguments.append("--overlap-grad-reduce")
        if plan.zero_stage > 0:  # without shards there is nothing to gather
            arguments.append("--overlap-param-gather")
    return arguments
    # endregion


def fsdp2_settings(plan: Plan, *, precision: Precision = "bf16") -> dict[str, Any]:
    """Return {"fully_shard": its keywords, or None where nothing is sharded; "torchtitan": {section: {key: value}}}.

    ValueError for fp16, which needs a loss scaler that torchtitan has not.
    """
    # region solution fsdp2_settings
    if precision == "fp16":
        raise ValueError("torchtitan trains in bfloat16 or float32: it has no loss scaler for fp16")
    is_sharded = plan.zero_stage > 0
    # FSDP2 always shards the weights; what differs is how long gathered ones stay. Stage 3 drops them after each forward. Kept until the
    # backward is done, they make it stage 2, and stage 1 while a schedule postpones the reduction to the last micro-batch.
    reshard = plan.zero_stage == 3
    parallelism: dict[str, Any] = {
        # Replicas that hold everything, or shards of one model: dp is one or the other.
        "data_parallel_replicate_degree": 1 if is_sharded else plan.dp,
        "data_parallel_shard_degree": plan.dp if is_sharded else 1,
        "tensor_parallel_degree": plan.tp,
        "pipeline_parallel_degree": plan.pp,
        "context_parallel_degree": plan.cp,
        "expert_parallel_degree": plan.ep,
    }
    if is_sharded:
        parallelism["fsdp_reshard_after_forward"] = "always" if reshard else "never"
    local_batch_size = plan.micro_batch
    if plan.pp > 1:
        # Accumulation is what the pipeline does: the whole share of a replica enters it at once.
        local_batch_size = plan.micro_batch * plan.num_micro_batches
        parallelism["pipeline_parallel_schedule"] = "Interleaved1F1B" if plan.chunks > 1 else "1F1B"
        parallelism["pipeline_parallel_microbatch_size"] = plan.micro_batch
    training = {
        "local_batch_size": local_batch_size,
        "global_batch_size": plan.global_batch,
        "mixed_precision_param": "bfloat16",
        "mixed_precision_reduce": "float32",
    }
    checkpoint = {"mode": plan.recompute}
    policy = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}
    return {
        "fully_shard": {"reshard_after_forward": reshard, "mp_policy": policy} if is_sharded else None,
        "torchtitan": {"parallelism": parallelism, "training": training, "activation_checkpoint": checkpoint},
    }
    # endregion
