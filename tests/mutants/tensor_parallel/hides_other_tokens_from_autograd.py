"""Zeroes other ranks' tokens behind autograd's back, so row 0 collects their gradients.

law: tensor_parallel.vocabulary.embedding_equals_the_whole
says: gradient
"""
# region solution embedding_forward
    row = tokens - self.first_row
    is_elsewhere = (row < 0) | (row >= len(self.weight))
    x = F.embedding(row.masked_fill(is_elsewhere, 0), self.weight)
    x.data.masked_fill_(is_elsewhere.unsqueeze(-1), 0)
    return reduce_scatter_sequence(x, self.group) if self.sequence_parallel else reduce_from_tensor_parallel(x, self.group)
# endregion
