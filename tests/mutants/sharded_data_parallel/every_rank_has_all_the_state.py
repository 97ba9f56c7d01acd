"""Makes whole parameters the shards, and only gathers a part.

law: sharded_data_parallel.zero1.state_is_sharded
says: memory
"""
# region solution add_param_group
    super().add_param_group(param_group)
    added = self.param_groups[-1]
    buckets = [Bucket(parameters, self.group) for parameters in cut_into_buckets(added["params"], self.bucket_bytes)]
    self.buckets += buckets
    settings = {name: value for name, value in added.items() if name != "params"}
    mine = settings | {"params": [nn.Parameter(p.detach().clone()) for p in added['params']] + [shard for bucket in buckets for shard in bucket.shards]}
    if self.local is None:
        self.local = self.optimizer_cls([mine], **self.defaults)
    else:
        self.local.add_param_group(mine)
    for name, value in self.local.param_groups[-1].items():
        added.setdefault(name, value)
# endregion

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

    for seen, local in zip(self.param_groups, self.local.param_groups, strict=True):
        local.update({name: value for name, value in seen.items() if name != "params"})
    [setattr(p, 'grad', torch.zeros_like(p)) for group in self.local.param_groups for p in group['params'] if p.grad is None]
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
