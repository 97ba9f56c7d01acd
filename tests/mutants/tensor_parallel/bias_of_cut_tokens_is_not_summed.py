"""Adds the row's bias to its own tokens and leaves its gradient at that.

law: tensor_parallel.linear.sequence_parallel_layers_are_exact
says: bias
"""
# region solution row_forward
    part = x if self.input_is_parallel else scatter_to_tensor_parallel(x, self.group)
    y = F.linear(part, self.weight)
    y = reduce_scatter_sequence(y, self.group) if self.sequence_parallel else reduce_from_tensor_parallel(y, self.group)
    return y if self.bias is None else y + self.bias
# endregion
