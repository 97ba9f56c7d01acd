"""Makes a stream's seed by flipping bits of the seed, which another seed has already flipped.

law: tensor_parallel.randomness.streams_are_the_ranks_own
says: share a stream
"""
# region solution rank_random_init
shared = random_states()
# With seed + rank, rank 1 of seed 0 would draw what rank 0 of seed 1 draws; and of a larger combination torch's CPU generator
# keeps the low 32 bits. So the pair is hashed.
torch.manual_seed(seed ^ (dist.get_rank(group) << 9))
self.states = random_states()
restore_random_states(shared)
# endregion
