"""The mean of the owners' gradients.

law: pipeline_parallel.tied.gradients_are_added
says: a sum is meant
"""
# region solution all_reduce_tied_gradient
gradient = (torch.zeros_like(weight) if weight.grad is None else weight.grad).contiguous()
# A sum and no mean: in one process the embedding's use and the head's would have been added up.
dist.all_reduce(gradient, group=group)
weight.grad = gradient / dist.get_world_size(group)
# endregion
