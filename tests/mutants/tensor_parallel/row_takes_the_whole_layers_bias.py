"""Uses the very bias parameter of the layer from which it is made.

law: tensor_parallel.linear.holds_its_part_only
says: bias
"""
# region solution row_init
    self.group, self.input_is_parallel, self.sequence_parallel = group, input_is_parallel, sequence_parallel
    self.weight = cut(linear.weight, 1, group)
    self.bias = linear.bias
# endregion
