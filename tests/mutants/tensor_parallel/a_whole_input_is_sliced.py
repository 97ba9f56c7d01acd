"""Slices the whole input of a row-parallel layer, whose gradient is then zero outside the slice.

law: tensor_parallel.linear.whole_inputs_and_outputs
says: gradient
"""
# region solution row_forward
    part = x if self.input_is_parallel else own_part(x, -1, self.group)
    y = F.linear(part, self.weight)
    y = reduce_scatter_sequence(y, self.group) if self.sequence_parallel else reduce_from_tensor_parallel(y, self.group)
    if self.bias is None:
        return y
    return y + (copy_to_tensor_parallel(self.bias, self.group) if self.sequence_parallel else self.bias)
# endregion
