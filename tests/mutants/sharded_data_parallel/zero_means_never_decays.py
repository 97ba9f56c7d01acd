"""Takes a mean gradient of zeros for a missing one and leaves the parameter out of the step, decay and moments included.

law: sharded_data_parallel.zero1.missing_gradients_count_as_zeros
says: not used
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
                shard.grad = gradient if gradient.any() else None

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
