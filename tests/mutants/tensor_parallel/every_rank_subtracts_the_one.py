"""Subtracts the one-hot on every rank, in column 0 where the target is another rank's.

law: tensor_parallel.vocabulary.loss_and_gradient_equal_the_whole
says: first column of a rank
"""
# region solution cross_entropy_backward
    exponentials, denominator, row, is_here, counts, num_counted = ctx.saved_tensors
    scale = gradient / num_counted * counts
    d_logits = exponentials * (scale / denominator).unsqueeze(-1)
    d_logits.scatter_add_(-1, row.unsqueeze(-1), -scale.unsqueeze(-1))
    return d_logits.to(ctx.dtype), None, None, None, None
# endregion
