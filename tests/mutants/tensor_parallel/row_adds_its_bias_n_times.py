"""Gives the bias to every rank's addends, so the sum has it N times.

law: tensor_parallel.linear.row_adds_up_once
says: bias
"""
# region solution row_forward
    part = x if self.input_is_parallel else scatter_to_tensor_parallel(x, self.group)
    y = F.linear(part, self.weight, self.bias)
    return reduce_scatter_sequence(y, self.group) if self.sequence_parallel else reduce_from_tensor_parallel(y, self.group)
# endregion
