"""Restores the shared states by an exception, too, but forgets what the stream had drawn until then.

law: tensor_parallel.randomness.streams_are_the_ranks_own
says: exception
"""
# region solution rank_random_fork
    shared = random_states()
    restore_random_states(self.states)
    try:
        yield
        self.states = random_states()
    finally:
        restore_random_states(shared)
# endregion
