"""Restores the global generators only where nothing was raised.

law: tensor_parallel.randomness.shared_stream_is_untouched
says: exception
"""
# region solution rank_random_fork
        shared = random_states()
        restore_random_states(self.states)
        yield
        self.states = random_states()
        restore_random_states(shared)
# endregion
