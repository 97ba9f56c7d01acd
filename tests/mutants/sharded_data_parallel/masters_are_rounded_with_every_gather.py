"""Writes the cast weights back to the masters at each gather, so that small updates are lost.

law: sharded_data_parallel.fsdp.masters_keep_their_precision
says: float32
"""
        # region solution unit_gather
        if self.is_gathered:
            return
        self.is_gathered = True
        self.flat_whole.untyped_storage().resize_(self.whole_bytes)
        mine = self.flat_shard.to(self.compute_dtype)
        self.flat_shard.data.copy_(mine)
        # .data: the weights are the same ones that autograd has saved, so their version must not count this as a change.
        work = dist.all_gather_into_tensor(self.flat_whole.data, mine, group=self.group, async_op=True)
        self.gathering = (work, mine)  # `mine` belongs to the network until it is waited for
        # endregion
