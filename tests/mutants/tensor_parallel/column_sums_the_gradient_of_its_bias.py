"""Sends the part of the bias through f, too, which adds up gradients of different outputs.

law: tensor_parallel.linear.column_computes_its_outputs
says: different outputs
"""
# region solution column_forward
    whole_x = all_gather_sequence(x, self.group) if self.sequence_parallel else copy_to_tensor_parallel(x, self.group)
    bias = None if self.bias is None else copy_to_tensor_parallel(self.bias, self.group)
    y = F.linear(whole_x, self.weight, bias)
    return gather_from_tensor_parallel(y, self.group) if self.gather_output else y
# endregion
