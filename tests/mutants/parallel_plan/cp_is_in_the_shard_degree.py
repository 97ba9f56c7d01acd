"""Counts the cp ranks among the shards, as FSDP does inside: the degrees multiply to more than the world.

law: parallel_plan.settings.torchtitan_degrees_multiply
says: data_parallel_shard_degree
"""
    # region solution fsdp2_settings
    if precision == "fp16":
        raise ValueError("torchtitan trains in bfloat16 or float32: it has no loss scaler for fp16")
    is_sharded = plan.zero_stage > 0
    reshard = plan.zero_stage == 3
    parallelism: dict[str, Any] = {
        "data_parallel_replicate_degree": 1 if is_sharded else plan.dp,
        "data_parallel_shard_degree": plan.dp * plan.cp if is_sharded else 1,
        "tensor_parallel_degree": plan.tp,
        "pipeline_parallel_degree": plan.pp,
        "context_parallel_degree": plan.cp,
        "expert_parallel_degree": plan.ep,
    }
    if is_sharded:
        parallelism["fsdp_reshard_after_forward"] = "always" if reshard else "never"
    local_batch_size = plan.micro_batch
    if plan.pp > 1:
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
