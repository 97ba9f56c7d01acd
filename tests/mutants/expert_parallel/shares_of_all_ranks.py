"""Counts the choices of all ranks' tokens by an all-reduce.

law: expert_parallel.layer.three_exchanges_and_two
says: all_reduce
"""
    # region solution load_balancing_loss
    num_tokens, num_experts = routing.probabilities.shape
    if num_tokens == 0:
        return routing.probabilities.sum()
    counts_E = torch.bincount(routing.experts.flatten(), minlength=num_experts)
    dist.all_reduce(counts_E)
    shares_E = counts_E.to(routing.probabilities.dtype) / counts_E.sum()
    return num_experts * (shares_E * routing.probabilities.mean(0)).sum()
    # endregion
