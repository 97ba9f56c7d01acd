"""Adds the bias on rank 0 and mends its gradient through f: right, and another message in backward.

law: tensor_parallel.linear.one_collective_each_way
says: bytes
"""
# region solution row_forward
    part = x if self.input_is_parallel else scatter_to_tensor_parallel(x, self.group)
    y = F.linear(part, self.weight)
    if self.bias is not None:
        y = y + copy_to_tensor_parallel(self.bias, self.group) * (dist.get_rank(self.group) == 0)
    return reduce_scatter_sequence(y, self.group) if self.sequence_parallel else reduce_from_tensor_parallel(y, self.group)
# endregion
