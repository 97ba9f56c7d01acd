"""Keeps a table of conditions and words, in another order of keys and flags."""
    # region solution deepspeed_config
    if plan.chunks != 1:
        raise ValueError("interleaved stages are not DeepSpeed's")
    wanted = {
        "activation_checkpointing": {"partition_activations": False} if plan.recompute == "full" else None,
        "sequence_parallel_size": plan.cp if plan.cp > 1 else None,
        "fp16": {"loss_scale": 0, "enabled": True} if precision == "fp16" else None,
        "bf16": {"enabled": True} if precision == "bf16" else None,
        "zero_optimization": dict(overlap_comm=True, stage=plan.zero_stage),
        "gradient_clipping": 1.0,
        "gradient_accumulation_steps": plan.num_micro_batches,
        "train_micro_batch_size_per_gpu": plan.micro_batch,
        "train_batch_size": plan.micro_batch * plan.num_micro_batches * plan.dp,
    }
    return {key: value for key, value in wanted.items() if value is not None}
    # endregion
    # region solution megatron_arguments
    lines = [
        (True, "--accumulate-allreduce-grads-in-fp32 --overlap-grad-reduce"),
        (precision == "fp16", "--fp16"),
        (precision == "bf16", "--bf16"),
        (plan.zero_stage == 3, "--data-parallel-sharding-strategy optim_grads_params"),
        (plan.zero_stage == 2, "--data-parallel-sharding-strategy optim_grads"),
        (plan.zero_stage > 1, "--use-custom-fsdp"),
        (plan.zero_stage > 0, "--overlap-param-gather --use-distributed-optimizer"),
        (plan.recompute == "full", "--recompute-num-layers 1 --recompute-method uniform --recompute-granularity full"),
        (plan.ep > 1, "--moe-token-dispatcher-type alltoall"),
        (plan.chunks > 1, f"--num-virtual-stages-per-pipeline-rank {plan.chunks}"),
        (plan.tp > 1, "--sequence-parallel"),
        (True, f"--global-batch-size {plan.dp * plan.micro_batch * plan.num_micro_batches} --micro-batch-size {plan.micro_batch}"),
        (True, f"--expert-model-parallel-size {plan.ep} --context-parallel-size {plan.cp}"),
        (True, f"--pipeline-model-parallel-size {plan.pp} --tensor-model-parallel-size {plan.tp}"),
    ]
    return [word for is_wanted, words in lines if is_wanted for word in words.split()]
    # endregion
    # region solution fsdp2_settings
    if precision != "bf16":
        raise ValueError(f"{precision} has no place in torchtitan")
    degrees = {"tensor": plan.tp, "pipeline": plan.pp, "context": plan.cp, "expert": plan.ep}
    parallelism: dict[str, Any] = {f"{axis}_parallel_degree": degree for axis, degree in degrees.items()}
    held, cut = (plan.dp, 1) if plan.zero_stage == 0 else (1, plan.dp)
    parallelism |= {"data_parallel_replicate_degree": held, "data_parallel_shard_degree": cut}
    fully_shard = None
    if plan.zero_stage:
        parallelism["fsdp_reshard_after_forward"] = ("never", "always")[plan.zero_stage // 3]
        fully_shard = dict(mp_policy=dict(param_dtype="bfloat16", reduce_dtype="float32"), reshard_after_forward=plan.zero_stage == 3)
    in_pipeline = plan.num_micro_batches if plan.pp > 1 else 1
    if plan.pp > 1:
        schedules = {"1f1b": "1F1B", "interleaved": "Interleaved1F1B"}
        parallelism |= {"pipeline_parallel_schedule": schedules[plan.schedule], "pipeline_parallel_microbatch_size": plan.micro_batch}
    training = dict(mixed_precision_reduce="float32", mixed_precision_param="bfloat16")
    training |= dict(global_batch_size=plan.global_batch, local_batch_size=plan.micro_batch * in_pipeline)
    sections = {"training": training, "parallelism": parallelism, "activation_checkpoint": {"mode": plan.recompute}}
    return {"torchtitan": sections, "fully_shard": fully_shard}
    # endregion
