"""zero_grad() clears the parameters' gradients only; shards that were reduced before it count in the next step.

law: sharded_data_parallel.zero1.step_equals_one_process
says: zero_grad
"""
        # region solution sharded_zero_grad
        super().zero_grad(set_to_none)
        # endregion
