"""Each rank adds the bias to its addends.

law: tensor_parallel.linear.row_adds_up_once
says: bias
"""
# region solution row_forward
        part = x if self.input_is_parallel else scatter_to_tensor_parallel(x, self.group)
        partial_y = F.linear(part, self.weight, self.bias)
        y = reduce_scatter_sequence(partial_y, self.group) if self.sequence_parallel else reduce_from_tensor_parallel(partial_y, self.group)
        # After the sum: before it, the bias would be added N times. With cut tokens each rank's bias sees some tokens only; f adds up.
        return y
# endregion
