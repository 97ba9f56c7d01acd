"""Joins the weight from all ranks, multiplies with the whole of it everywhere, and cuts the outputs.

law: tensor_parallel.linear.one_collective_each_way
says: bytes
"""
# region solution column_forward
    if self.sequence_parallel:
        y = F.linear(all_gather_sequence(x, self.group), self.weight, self.bias)
        return gather_from_tensor_parallel(y, self.group) if self.gather_output else y
    whole_weight = gather_from_tensor_parallel(self.weight.t(), self.group).t()
    whole_bias = None if self.bias is None else gather_from_tensor_parallel(self.bias, self.group)
    y = F.linear(x, whole_weight, whole_bias)
    return y if self.gather_output else scatter_to_tensor_parallel(y, self.group)
# endregion
