"""Clamps tokens of other ranks to its own rows and adds what it finds there.

law: tensor_parallel.vocabulary.embedding_equals_the_whole
says: clamped to them
"""
# region solution embedding_forward
    row = (tokens - self.first_row).clamp(0, len(self.weight) - 1)
    x = F.embedding(row, self.weight)
    return reduce_scatter_sequence(x, self.group) if self.sequence_parallel else reduce_from_tensor_parallel(x, self.group)
# endregion
