"""Adds row 0 of every rank to each token.

law: tensor_parallel.vocabulary.embedding_equals_the_whole
says: row 0 of every rank
"""
# region solution embedding_forward
        row = tokens - self.first_row
        is_elsewhere = (row < 0) | (row >= len(self.weight))
        # Each token is one rank's, and the others add zeros to it. Row 0 stands in where there is none; what it gives is thrown away.
        x = F.embedding(row.masked_fill(is_elsewhere, 0), self.weight)
        return reduce_scatter_sequence(x, self.group) if self.sequence_parallel else reduce_from_tensor_parallel(x, self.group)
# endregion
