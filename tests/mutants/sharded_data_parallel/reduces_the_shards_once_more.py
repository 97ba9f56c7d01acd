"""step() reduces everything once more.

law: sharded_data_parallel.zero2.each_gradient_is_reduced_once
says: reduc
"""
# region solution reduce_gradients
    for bucket in self.buckets:
        kept = bucket.gradient
        bucket.gradient = None
        bucket.start_reduction()
        bucket.finish_reduction()
        bucket.gradient = kept if kept is not None else bucket.gradient
    return [gradient for bucket in self.buckets for gradient in bucket.gradient_shards()]
# endregion
