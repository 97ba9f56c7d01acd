"""Lets rank 0 add the bias to its addends: the sum is right, and nobody else has the bias's gradient.

law: tensor_parallel.linear.row_adds_up_once
says: bias
"""
# region solution row_forward
    part = x if self.input_is_parallel else scatter_to_tensor_parallel(x, self.group)
    y = F.linear(part, self.weight)
    if self.bias is not None:
        y = y + self.bias * (dist.get_rank(self.group) == 0)
    return reduce_scatter_sequence(y, self.group) if self.sequence_parallel else reduce_from_tensor_parallel(y, self.group)
# endregion
