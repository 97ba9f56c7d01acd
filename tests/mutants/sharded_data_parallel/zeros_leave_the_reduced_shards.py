"""Forgets the reduced shards only where gradients become None, and not where they become zeros.

law: sharded_data_parallel.zero1.step_equals_one_process
says: zero_grad
"""
        # region solution sharded_zero_grad
        super().zero_grad(set_to_none)
        if set_to_none:
            for bucket in self.buckets:
                bucket.gradient = None
        # endregion
