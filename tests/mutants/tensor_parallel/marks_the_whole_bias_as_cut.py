"""Marks the row's bias, which is whole on all ranks, as cut: clipping will count it N times.

law: tensor_parallel.linear.holds_its_part_only
says: is_cut
"""
# region solution row_init
    self.group, self.input_is_parallel, self.sequence_parallel = group, input_is_parallel, sequence_parallel
    self.weight = cut(linear.weight, 1, group)
    self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone())
    for parameter in self.parameters():
        parameter.is_cut = True
# endregion
