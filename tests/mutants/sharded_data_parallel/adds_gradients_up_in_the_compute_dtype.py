"""Rounds the mean to the compute dtype before it adds it to the masters' gradients.

law: sharded_data_parallel.fsdp.masters_keep_their_precision
says: bfloat16
"""
        # region solution unit_mean
        if self.reduction is None:
            return
        work, received, _ = self.reduction
        self.reduction = None
        work.wait()
        mean = received.div_(self.world_size).to(self.compute_dtype).to(self.master_dtype)
        for shard, place in zip(self.shards, self.places, strict=True):
            if shard.requires_grad:
                shard.grad = mean[place] if shard.grad is None else shard.grad.add_(mean[place])
        # endregion
