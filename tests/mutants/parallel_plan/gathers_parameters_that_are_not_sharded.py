"""Asks for overlapped gathering of parameters even where no optimizer is sharded.

law: parallel_plan.settings.megatron_flags_are_real
says: --overlap-param-gather
"""
    # region solution megatron_arguments
    numbers = {
        "--tensor-model-parallel-size": plan.tp,
        "--pipeline-model-parallel-size": plan.pp,
        "--context-parallel-size": plan.cp,
        "--expert-model-parallel-size": plan.ep,
        "--micro-batch-size": plan.micro_batch,
        "--global-batch-size": plan.global_batch,
    }
    arguments = [word for flag, number in numbers.items() for word in (flag, str(number))]
    arguments.append(f"--{precision}")
    if plan.sequence_parallel:
        arguments.append("--sequence-parallel")
    if plan.chunks > 1:
        arguments += ["--num-virtual-stages-per-pipeline-rank", str(plan.chunks)]
    if plan.ep > 1:
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
        arguments.append("--overlap-param-gather")
    return arguments
    # endregion
