"""Calls the closure after the gradients were reduced.

law: sharded_data_parallel.zero1.closure_is_called_once
says: weight
"""
# region solution sharded_step
    assert self.local is not None
    loss = None
    if closure is not None:
        with torch.enable_grad():
            self.reduce_gradients()
            loss = closure()
            [setattr(bucket, 'gradient', bucket.gradient if bucket.gradient is not None else bucket.parameters[0].new_zeros(bucket.width)) for bucket in self.buckets]
    self.reduce_gradients()
    for bucket in self.buckets:
        for shard, gradient in zip(bucket.shards, bucket.gradient_shards(), strict=True):
            shard.grad = gradient

    for seen, local in zip(self.param_groups, self.local.param_groups, strict=True):
        local.update({name: value for name, value in seen.items() if name != "params"})
    self.local.step()

    for bucket in self.buckets:
        bucket.gradient = None
        for shard in bucket.shards:
            shard.grad = None
    if self.buckets:
        self.buckets[0].start_gathering()
    for bucket, following in itertools.zip_longest(self.buckets, self.buckets[1:]):
        if following is not None:
            following.start_gathering()
        bucket.finish_gathering()
    return loss
# endregion
