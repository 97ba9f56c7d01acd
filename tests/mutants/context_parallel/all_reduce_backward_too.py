"""Sums the gradient over the ranks as well.

law: context_parallel.sequence.loss_gradients_are_the_parts_of_the_whole
says: 3
"""
# region solution sum_backward
gradient = gradient.clone()
dist.all_reduce(gradient)
return gradient, None
# endregion
