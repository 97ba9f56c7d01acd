"""Never keeps where a fork left the stream: each fork draws the same numbers.

law: tensor_parallel.randomness.streams_are_the_ranks_own
says: fork
"""
# region solution rank_random_fork
    shared = random_states()
    restore_random_states(self.states)
    try:
        yield
    finally:
        restore_random_states(shared)
# endregion
