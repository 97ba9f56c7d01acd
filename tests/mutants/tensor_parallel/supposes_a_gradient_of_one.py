"""Ignores the incoming gradient, which a scaled or weighted loss makes another number than one.

law: tensor_parallel.vocabulary.loss_and_gradient_equal_the_whole
says: gradient
"""
# region solution cross_entropy_backward
    exponentials, denominator, row, is_here, counts, num_counted = ctx.saved_tensors
    scale = counts / num_counted
    d_logits = exponentials * (scale / denominator).unsqueeze(-1)
    d_logits.scatter_add_(-1, row.unsqueeze(-1), -(scale * is_here).unsqueeze(-1))
    return d_logits.to(ctx.dtype), None, None, None, None
# endregion
