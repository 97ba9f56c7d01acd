"""Adds the received mean without waiting for the reduction.

law: sharded_data_parallel.fsdp.waits_for_what_it_gathers
says: land
"""
        # region solution unit_mean
        if self.reduction is None:
            return
        work, received, _ = self.reduction
        self.reduction = None
        mean = received.to(self.master_dtype).div_(self.world_size)
        for shard, place in zip(self.shards, self.places, strict=True):
            if shard.requires_grad:
                shard.grad = mean[place] if shard.grad is None else shard.grad.add_(mean[place])
        # endregion
