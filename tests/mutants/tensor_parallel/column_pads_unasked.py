"""Pads the outputs even without pad=True where it should refuse.

law: tensor_parallel.functions.uneven_parts_are_refused
says: ValueError
"""
# region solution column_init
    self.group, self.gather_output, self.sequence_parallel = group, gather_output, sequence_parallel
    self.weight = cut(linear.weight, 0, group, pad=True)
    self.bias = None if linear.bias is None else cut(linear.bias, 0, group, pad=True)
# endregion
