"""Counts the row behind its last as its own, so the first token of each rank but rank 0 is looked up twice.

law: tensor_parallel.vocabulary.embedding_equals_the_whole
says: row 0 of rank 1
"""
# region solution embedding_forward
    row = tokens - self.first_row
    is_elsewhere = (row < 0) | (row > len(self.weight))
    x = F.embedding(row.clamp(0, len(self.weight) - 1), self.weight).masked_fill(is_elsewhere.unsqueeze(-1), 0)
    return reduce_scatter_sequence(x, self.group) if self.sequence_parallel else reduce_from_tensor_parallel(x, self.group)
# endregion
