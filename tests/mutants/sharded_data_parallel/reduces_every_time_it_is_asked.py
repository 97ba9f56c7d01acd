"""reduce_gradients reduces again in step, also what was clipped.

law: sharded_data_parallel.clip.steps_are_clipped
says: weight
"""
# region solution reduce_gradients
    for bucket in self.buckets:
        if True:
            bucket.gradient = None
            bucket.start_reduction()
            bucket.finish_reduction()
    return [gradient for bucket in self.buckets for gradient in bucket.gradient_shards()]
# endregion
