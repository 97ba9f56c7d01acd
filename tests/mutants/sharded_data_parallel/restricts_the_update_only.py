"""The local optimizer has all parameters, with zeros for the gradients of others: only the update is restricted, the state is whole.

law: sharded_data_parallel.zero1.state_is_sharded
says: state
"""
        # region solution add_param_group
        super().add_param_group(param_group)
        added = self.param_groups[-1]
        buckets = [Bucket(parameters, self.group) for parameters in cut_into_buckets(added["params"], self.bucket_bytes)]
        self.buckets += buckets
        settings = {name: value for name, value in added.items() if name != "params"}
        mine = settings | {"params": [p for p in added["params"] if p.requires_grad]}
        if self.local is None:
            self.local = self.optimizer_cls([mine], **self.defaults)
        else:
            self.local.add_param_group(mine)
        # What the optimizer has filled in itself (betas, momentum, ...) shows here too: schedulers look for it.
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
            spans = shard_spans(bucket.sizes, dist.get_rank(self.group), bucket.world_size)
            for parameter, (start, stop), gradient in zip(bucket.parameters, spans, bucket.gradient_shards(), strict=True):
                parameter.grad = torch.zeros_like(parameter)
                parameter.grad.view(-1)[start:stop] = gradient

        # A scheduler, or the user, writes into this object's groups; the local optimizer has copies of them.
        for seen, local in zip(self.param_groups, self.local.param_groups, strict=True):
            local.update({name: value for name, value in seen.items() if name != "params"})
        self.local.step()

        for bucket in self.buckets:
            bucket.gradient = None
            for shard in bucket.shards:
                shard.grad = None
        # The next bucket is under way while this one is put in place.
        if self.buckets:
            self.buckets[0].start_gathering()
        for bucket, following in itertools.zip_longest(self.buckets, self.buckets[1:]):
            if following is not None:
                following.start_gathering()
            bucket.finish_gathering()
        return loss
        # endregion
