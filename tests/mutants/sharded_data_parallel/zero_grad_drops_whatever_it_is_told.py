"""zero_grad(set_to_none=False) drops the gradients all the same.

law: sharded_data_parallel.zero1.step_equals_one_process
says: set_to_none
"""
        # region solution sharded_zero_grad
        super().zero_grad()
        for bucket in self.buckets:
            bucket.gradient = None
        # endregion
