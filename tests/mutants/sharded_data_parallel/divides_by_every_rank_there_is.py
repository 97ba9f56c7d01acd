"""Divides by the size of the default group, also in a subgroup.

law: sharded_data_parallel.fsdp.gradients_equal_the_whole_batch
says: group
"""
        # region solution unit_mean
        if self.reduction is None:
            return
        work, received, _ = self.reduction
        self.reduction = None
        work.wait()
        mean = received.to(self.master_dtype).div_(dist.get_world_size())
        for shard, place in zip(self.shards, self.places, strict=True):
            if shard.requires_grad:
                shard.grad = mean[place] if shard.grad is None else shard.grad.add_(mean[place])
        # endregion
