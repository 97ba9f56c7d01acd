"""Seeds the stream by the sum of seed and rank.

law: tensor_parallel.randomness.streams_are_the_ranks_own
says: stream
"""
# region solution rank_random_init
        shared = random_states()
        # With seed + rank, rank 1 of seed 0 would draw what rank 0 of seed 1 draws; and of a larger combination torch's CPU generator
        # keeps the low 32 bits. So the pair is hashed, which is what Python's generator does with a text.
        torch.manual_seed(seed + dist.get_rank(group))  # seeds the GPU's generator as well
        self.states = random_states()
        restore_random_states(shared)
# endregion
