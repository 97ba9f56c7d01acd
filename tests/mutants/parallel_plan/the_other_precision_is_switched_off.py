"""Writes a section for both precisions, one of them disabled.

law: parallel_plan.settings.deepspeed_batches_multiply
says: fp16
"""
    # region solution deepspeed_config
    if plan.chunks > 1:
        raise ValueError(f"DeepSpeed's pipeline engine knows 1F1B only, not {plan.chunks} chunks a stage")
    config: dict[str, Any] = {
        "train_batch_size": plan.global_batch,
        "train_micro_batch_size_per_gpu": plan.micro_batch,
        "gradient_accumulation_steps": plan.num_micro_batches,
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": plan.zero_stage, "overlap_comm": plan.overlap},
    }
    config["bf16"] = {"enabled": precision == "bf16"}
    config["fp16"] = {"enabled": True, "loss_scale": 0} if precision == "fp16" else {"enabled": False}
    if plan.cp > 1:
        config["sequence_parallel_size"] = plan.cp
    if plan.recompute == "full":
        config["activation_checkpointing"] = {"partition_activations": False}
    return config
    # endregion
