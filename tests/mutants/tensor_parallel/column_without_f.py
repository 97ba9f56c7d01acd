"""A column-parallel layer takes its input as it is.

law: tensor_parallel.linear.column_computes_its_outputs
says: gradient of the input
"""
# region solution column_forward
        if not self.is_entered:
            x = all_gather_sequence(x, self.group) if self.sequence_parallel else x
        y = F.linear(x, self.weight, self.bias)
        return gather_from_tensor_parallel(y, self.group) if self.gather_output else y
# endregion
