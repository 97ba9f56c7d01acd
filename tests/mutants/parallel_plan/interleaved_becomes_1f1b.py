"""Drops the chunks silently where DeepSpeed has no word for them.

law: parallel_plan.settings.refuses_what_a_library_cannot
says: ValueError
"""
    # region solution deepspeed_config
    config: dict[str, Any] = {
        "train_batch_size": plan.global_batch,
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
