"""Forgets the group, so that ranks are asked that have no copy.

law: pipeline_parallel.tied.trains_as_one_weight
says: rank
"""
# region solution all_reduce_tied_gradient
gradient = (torch.zeros_like(weight) if weight.grad is None else weight.grad).contiguous()
# A sum and no mean: in one process the embedding's use and the head's would have been added up.
dist.all_reduce(gradient)
weight.grad = gradient
# endregion
