"""Keeps the layer that it replaces, hidden in a list: the right parameters, and the whole model beside them.

law: tensor_parallel.model.starts_from_the_whole_weights
says: memory
"""
# region solution column_init
    self.group, self.gather_output, self.sequence_parallel = group, gather_output, sequence_parallel
    self.weight = cut(linear.weight, 0, group, pad=pad)
    self.bias = None if linear.bias is None else cut(linear.bias, 0, group, pad=pad)
    self.replaced = [linear]
# endregion
