"""Leaves a row-parallel layer by an all-reduce of all tokens, keeps its own, and has their gradients joined.

law: tensor_parallel.sequence.same_bytes_as_all_reduces
says: bytes
"""
# region solution row_forward
    part = x if self.input_is_parallel else scatter_to_tensor_parallel(x, self.group)
    y = reduce_from_tensor_parallel(F.linear(part, self.weight), self.group)
    if self.sequence_parallel:
        y = scatter_to_tensor_parallel(y.transpose(1, -1), self.group).transpose(1, -1)
    if self.bias is None:
        return y
    return y + (copy_to_tensor_parallel(self.bias, self.group) if self.sequence_parallel else self.bias)
# endregion
