"""Reduce-scatters by an all-reduce, behind each row-parallel layer.

law: tensor_parallel.sequence.same_bytes_as_all_reduces
says: times the bytes
"""
# region solution row_forward
        part = x if self.input_is_parallel else scatter_to_tensor_parallel(x, self.group)
        partial_y = F.linear(part, self.weight)
        y = scatter_to_tensor_parallel(reduce_from_tensor_parallel(partial_y, self.group).transpose(1, 2), self.group).transpose(1, 2) if self.sequence_parallel else reduce_from_tensor_parallel(partial_y, self.group)
        if self.bias is None:
            return y
        # After the sum: before it, the bias would be added N times. With cut tokens each rank's bias sees some tokens only; f adds up.
        return y + (copy_to_tensor_parallel(self.bias, self.group) if self.sequence_parallel else self.bias)
# endregion
