"""Sums the embedding and slices its tokens: right forward, and backward each rank's rows get the gradient of its own tokens only.

law: tensor_parallel.vocabulary.embedding_equals_the_whole
says: own tokens give
"""
# region solution embedding_forward
    row = tokens - self.first_row
    is_elsewhere = (row < 0) | (row >= len(self.weight))
    x = F.embedding(row.masked_fill(is_elsewhere, 0), self.weight).masked_fill(is_elsewhere.unsqueeze(-1), 0)
    x = reduce_from_tensor_parallel(x, self.group)
    return own_part(x, 1, self.group) if self.sequence_parallel else x
# endregion
