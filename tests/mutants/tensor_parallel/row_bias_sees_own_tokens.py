"""Leaves the bias's gradient of other ranks' tokens out.

law: tensor_parallel.linear.sequence_parallel_layers_are_exact
says: gradient of bias
"""
# region solution row_forward
        part = x if self.input_is_parallel else scatter_to_tensor_parallel(x, self.group)
        partial_y = F.linear(part, self.weight)
        y = reduce_scatter_sequence(partial_y, self.group) if self.sequence_parallel else reduce_from_tensor_parallel(partial_y, self.group)
        if self.bias is None:
            return y
        # After the sum: before it, the bias would be added N times. With cut tokens each rank's bias sees some tokens only; f adds up.
        return y + self.bias
# endregion
