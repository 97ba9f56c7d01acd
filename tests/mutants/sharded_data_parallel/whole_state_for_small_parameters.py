"""Keeps the whole state of parameters that are small for the number of ranks, because a short shard is not worth its call.

law: sharded_data_parallel.zero1.holds_at_scale
says: sharded
"""
        # region solution add_param_group
        super().add_param_group(param_group)
        added = self.param_groups[-1]
        buckets = [Bucket(parameters, self.group) for parameters in cut_into_buckets(added["params"], self.bucket_bytes)]
        self.buckets += buckets
        settings = {name: value for name, value in added.items() if name != "params"}
        mine = settings | {"params": [shard for bucket in buckets for shard in bucket.shards]}
        if dist.get_world_size(self.group) > 16:
            for bucket in buckets:
                for parameter in bucket.parameters:
                    if parameter.numel() < 1024 * bucket.world_size:
                        self.state[parameter]["exp_avg"] = torch.zeros_like(parameter)
                        self.state[parameter]["exp_avg_sq"] = torch.zeros_like(parameter)
        if self.local is None:
            self.local = self.optimizer_cls([mine], **self.defaults)
        else:
            self.local.add_param_group(mine)
        # What the optimizer has filled in itself (betas, momentum, ...) shows here too: schedulers look for it.
        for name, value in self.local.param_groups[-1].items():
            added.setdefault(name, value)
        # endregion
