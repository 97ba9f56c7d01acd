"""Reduce-scatters along dim 0, the batch, instead of the tokens.

law: tensor_parallel.linear.sequence_parallel_layers_are_exact
says: tokens
"""
# region solution row_forward
    part = x if self.input_is_parallel else scatter_to_tensor_parallel(x, self.group)
    y = F.linear(part, self.weight)
    y = reduce_scatter_sequence(y, self.group, 0) if self.sequence_parallel else reduce_from_tensor_parallel(y, self.group)
    if self.bias is None:
        return y
    return y + (copy_to_tensor_parallel(self.bias, self.group) if self.sequence_parallel else self.bias)
# endregion
