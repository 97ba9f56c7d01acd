"""Cuts the whole input by plain indexing.

law: tensor_parallel.linear.whole_inputs_and_outputs
says: gradient of the input
"""
# region solution row_forward
        part = x if self.input_is_parallel else own_part(x, -1, self.group)
        partial_y = F.linear(part, self.weight)
        y = reduce_scatter_sequence(partial_y, self.group) if self.sequence_parallel else reduce_from_tensor_parallel(partial_y, self.group)
        if self.bias is None:
            return y
        # After the sum: before it, the bias would be added N times. With cut tokens each rank's bias sees some tokens only; f adds up.
        return y + (copy_to_tensor_parallel(self.bias, self.group) if self.sequence_parallel else self.bias)
# endregion
