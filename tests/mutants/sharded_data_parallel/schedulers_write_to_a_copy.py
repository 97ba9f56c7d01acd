"""Never copies the settings to the local optimizer again.

law: sharded_data_parallel.zero1.schedulers_are_seen
says: scheduler
"""
# region solution sharded_step
    assert self.local is not None
    loss = None
    if closure is not None:
        with torch.enable_grad():
            loss = closure()
    self.reduce_gradients()
    for bucket in self.buckets:
        for shard, gradient in zip(bucket.shards, bucket.gradient_shards(), strict=True):
            shard.grad = gradient

    for seen, local in ():
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
