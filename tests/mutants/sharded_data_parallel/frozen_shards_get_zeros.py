"""Gives every shard a grad, zeros for the frozen ones too.

law: sharded_data_parallel.fsdp.shared_and_frozen_weights
says: frozen
"""
        # region solution unit_mean
        if self.reduction is None:
            return
        work, received, _ = self.reduction
        self.reduction = None
        work.wait()
        mean = received.to(self.master_dtype).div_(self.world_size)
        for shard, place in zip(self.shards, self.places, strict=True):
            shard.grad = mean[place] if shard.grad is None else shard.grad.add_(mean[place])
        # endregion
