"""Cuts the embedding without padding and refuses a vocabulary that N doesn't divide.

law: tensor_parallel.vocabulary.uneven_vocabularies_are_padded
says: vocab
"""
# region solution embedding_init
    self.group, self.sequence_parallel = group, sequence_parallel
    self.weight = cut(embedding.weight, 0, group)
    self.first_row = dist.get_rank(group) * len(self.weight)
# endregion
