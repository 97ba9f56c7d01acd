"""A rank that owns nothing of a unit does not call its all-gather.

law: sharded_data_parallel.fsdp.gradients_equal_the_whole_batch
says: rank
"""
        # region solution unit_gather
        if self.is_gathered:
            return
        self.is_gathered = True
        self.flat_whole.untyped_storage().resize_(self.whole_bytes)
        mine = self.flat_shard.to(self.compute_dtype)
        # .data: the weights are the same ones that autograd has saved, so their version must not count this as a change.
        if not any(shard.numel() for shard in self.shards):
            self._put_into_modules(self.wholes)
            return
        work = dist.all_gather_into_tensor(self.flat_whole.data, mine, group=self.group, async_op=True)
        self.gathering = (work, mine)  # `mine` belongs to the network until it is waited for
        # endregion
