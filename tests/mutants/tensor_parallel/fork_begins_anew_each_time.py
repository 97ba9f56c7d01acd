"""Every fork starts the stream from its beginning.

law: tensor_parallel.randomness.streams_are_the_ranks_own
says: anew
"""
# region solution rank_random_fork
        shared = random_states()
        restore_random_states(self.states)
        try:
            yield
        finally:
            restore_random_states(shared)
# endregion
