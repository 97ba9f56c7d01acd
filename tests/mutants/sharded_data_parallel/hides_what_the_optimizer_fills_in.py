"""Leaves betas, momentum and the like in the local optimizer, where no scheduler finds them.

law: sharded_data_parallel.zero1.schedulers_are_seen
says: param_groups
"""
        # region solution add_param_group
        super().add_param_group(param_group)
        added = self.param_groups[-1]
        buckets = [Bucket(parameters, self.group) for parameters in cut_into_buckets(added["params"], self.bucket_bytes)]
        self.buckets += buckets
        settings = {name: value for name, value in added.items() if name != "params"}
        mine = settings | {"params": [shard for bucket in buckets for shard in bucket.shards]}
        if self.local is None:
            self.local = self.optimizer_cls([mine], **self.defaults)
        else:
            self.local.add_param_group(mine)
        # What the optimizer has filled in itself (betas, momentum, ...) shows here too: schedulers look for it.

        # endregion
