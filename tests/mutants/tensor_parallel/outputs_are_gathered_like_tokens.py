"""Joins the outputs with the function made for tokens, whose backward adds up N equal gradients.

law: tensor_parallel.linear.whole_inputs_and_outputs
says: gradient
"""
# region solution column_forward
    whole_x = all_gather_sequence(x, self.group) if self.sequence_parallel else copy_to_tensor_parallel(x, self.group)
    y = F.linear(whole_x, self.weight, self.bias)
    return all_gather_sequence(y, self.group, y.dim() - 1) if self.gather_output else y
# endregion
