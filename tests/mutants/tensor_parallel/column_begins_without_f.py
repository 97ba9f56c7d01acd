"""Multiplies x as it is: the outputs are right, and the input's gradient is that of the own columns alone.

law: tensor_parallel.linear.column_computes_its_outputs
says: own addend
"""
# region solution column_forward
    whole_x = all_gather_sequence(x, self.group) if self.sequence_parallel else x
    y = F.linear(whole_x, self.weight, self.bias)
    return gather_from_tensor_parallel(y, self.group) if self.gather_output else y
# endregion
