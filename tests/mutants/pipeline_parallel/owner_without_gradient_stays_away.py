"""Returns if there is no gradient, while the other owner waits.

law: pipeline_parallel.tied.gradients_are_added
says: wait
"""
# region solution all_reduce_tied_gradient
if weight.grad is None:
    return
gradient = (torch.zeros_like(weight) if weight.grad is None else weight.grad).contiguous()
# A sum and no mean: in one process the embedding's use and the head's would have been added up.
dist.all_reduce(gradient, group=group)
weight.grad = gradient
# endregion
