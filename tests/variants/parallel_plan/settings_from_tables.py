"""Writes Megatron-LM's arguments from a table, in another order, and the batch sizes as products."""
    # region solution megatron_arguments
    table = [
        (True, ["--global-batch-size", str(plan.dp * plan.num_micro_batches * plan.micro_batch)]),
        (True, ["--micro-batch-size", f"{plan.micro_batch}"]),
        (plan.chunks > 1, ["--num-virtual-stages-per-pipeline-rank", f"{plan.chunks}"]),
        (precision == "fp16", ["--fp16"]),
        (precision == "bf16", ["--bf16"]),
        (plan.tp > 1, ["--sequence-parallel"]),
        (True, ["--expert-model-parallel-size", f"{plan.ep}", "--context-parallel-size", f"{plan.cp}"]),
        (True, ["--pipeline-model-parallel-size", f"{plan.pp}", "--tensor-model-parallel-size", f"{plan.tp}"]),
        (plan.zero_stage >= 1, ["--overlap-param-gather", "--use-distributed-optimizer"]),
        (plan.zero_stage >= 2, ["--use-custom-fsdp"]),
        (plan.zero_stage == 2, ["--data-parallel-sharding-strategy", "optim_grads"]),
        (plan.zero_stage == 3, ["--data-parallel-sharding-strategy", "optim_grads_params"]),
        (plan.recompute == "full", ["--recompute-num-layers", "1", "--recompute-method", "uniform", "--recompute-granularity", "full"]),
        (plan.ep > 1, ["--moe-token-dispatcher-type", "alltoall"]),
        (True, ["--overlap-grad-reduce", "--accumulate-allreduce-grads-in-fp32"]),
    ]
    return [word for is_wanted, words in table if is_wanted for word in words]
    # endregion
