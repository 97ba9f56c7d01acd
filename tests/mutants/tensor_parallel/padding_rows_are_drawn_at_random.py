"""Initialises the rows beyond the vocabulary like words.

law: tensor_parallel.vocabulary.uneven_vocabularies_are_padded
says: padding
"""
# region solution embedding_init
    self.group, self.sequence_parallel = group, sequence_parallel
    self.weight = cut(embedding.weight, 0, group, pad=True)
    self.first_row = dist.get_rank(group) * len(self.weight)
    with torch.no_grad():
        num_real = min(max(embedding.num_embeddings - self.first_row, 0), len(self.weight))
        self.weight[num_real:].normal_(std=0.02)
# endregion
