"""Gathers by a broadcast from every rank, N/(N-1) of an all-gather's volume.

law: sharded_data_parallel.fsdp.travels_three_times
says: gather
"""
        # region solution unit_gather
        if self.is_gathered:
            return
        self.is_gathered = True
        self.flat_whole.untyped_storage().resize_(self.whole_bytes)
        mine = self.flat_shard.to(self.compute_dtype)
        # .data: the weights are the same ones that autograd has saved, so their version must not count this as a change.
        rank, parts = dist.get_rank(self.group), self.flat_whole.data.chunk(self.world_size)
        parts[rank].copy_(mine)
        for source, part in enumerate(parts):
            work = dist.broadcast(part, group=self.group, group_src=source, async_op=True)
            work.wait()
        self.gathering = (work, mine)  # `mine` belongs to the network until it is waited for
        # endregion
