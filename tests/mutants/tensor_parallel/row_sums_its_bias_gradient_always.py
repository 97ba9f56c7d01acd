"""Sends the row's bias through f without cut tokens, too, where each rank has its whole gradient already.

law: tensor_parallel.linear.row_adds_up_once
says: bias
"""
# region solution row_forward
    part = x if self.input_is_parallel else scatter_to_tensor_parallel(x, self.group)
    y = F.linear(part, self.weight)
    y = reduce_scatter_sequence(y, self.group) if self.sequence_parallel else reduce_from_tensor_parallel(y, self.group)
    return y if self.bias is None else y + copy_to_tensor_parallel(self.bias, self.group)
# endregion
