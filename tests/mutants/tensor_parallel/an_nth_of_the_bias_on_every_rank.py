"""Adds an N-th of the bias on every rank before the sum: the output is right and the bias's gradient an N-th.

law: tensor_parallel.linear.row_adds_up_once
says: bias
"""
# region solution row_forward
    part = x if self.input_is_parallel else scatter_to_tensor_parallel(x, self.group)
    y = F.linear(part, self.weight)
    if self.bias is not None:
        y = y + self.bias / dist.get_world_size(self.group)
    return reduce_scatter_sequence(y, self.group) if self.sequence_parallel else reduce_from_tensor_parallel(y, self.group)
# endregion
