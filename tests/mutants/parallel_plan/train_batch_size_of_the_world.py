"""Multiplies by the world in place of dp.

law: parallel_plan.settings.deepspeed_batches_multiply
says: world
"""
    # region solution deepspeed_config
    if plan.chunks > 1:
        raise ValueError(f"DeepSpeed's pipeline engine knows 1F1B only, not {plan.chunks} chunks a stage")
    config: dict[str, Any] = {
        "train_batch_size": plan.micro_batch * plan.num_micro_batches * plan.num_gpus,
        "train_micro_batch_size_per_gpu": plan.micro_batch,
        "gradient_accumulation_steps": plan.num_micro_batches,
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": plan.zero_stage, "overlap_comm": plan.overlap},
    }
    config[precision] = {"enabled": True} if precision == "bf16" else {"enabled": True, "loss_scale": 0}
    if plan.cp > 1:
        config["sequence_parallel_size"] = plan.cp
    if plan.recompute == "full":
        config["activation_checkpointing"] = {"partition_activations": False}
    return config
    # endregion
