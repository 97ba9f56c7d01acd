"""Gathers the tokens and goes through f as well, so the input's gradient is summed twice.

law: tensor_parallel.linear.sequence_parallel_layers_are_exact
says: gradient
"""
# region solution column_forward
    whole_x = all_gather_sequence(x, self.group) if self.sequence_parallel else x
    whole_x = copy_to_tensor_parallel(whole_x, self.group)
    y = F.linear(whole_x, self.weight, self.bias)
    return gather_from_tensor_parallel(y, self.group) if self.gather_output else y
# endregion
