"""Leaves ignored tokens out of the mean and lets their softmax into the gradient.

law: tensor_parallel.vocabulary.ignored_targets_do_not_count
says: ignored targets count
"""
# region solution cross_entropy_backward
    exponentials, denominator, row, is_here, counts, num_counted = ctx.saved_tensors
    scale = (gradient / num_counted).expand_as(denominator)
    d_logits = exponentials * (scale / denominator).unsqueeze(-1)
    d_logits.scatter_add_(-1, row.unsqueeze(-1), -(scale * is_here).unsqueeze(-1))
    return d_logits.to(ctx.dtype), None, None, None, None
# endregion
