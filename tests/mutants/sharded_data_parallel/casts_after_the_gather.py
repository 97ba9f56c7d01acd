"""Gathers the masters in float32 and casts what has arrived.

law: sharded_data_parallel.fsdp.dtypes_travel_as_configured
says: dtype
"""
        # region solution unit_gather
        if self.is_gathered:
            return
        self.is_gathered = True
        self.flat_whole.untyped_storage().resize_(self.whole_bytes)
        mine = self.flat_shard.clone()
        self.arriving = mine.new_empty(self.world_size * self.width)
        # .data: the weights are the same ones that autograd has saved, so their version must not count this as a change.
        work = dist.all_gather_into_tensor(self.arriving, mine, group=self.group, async_op=True)
        self.gathering = (work, mine)  # `mine` belongs to the network until it is waited for
        # endregion
        # region solution unit_wait
        self.start_gathering()
        if self.gathering is not None:
            self.gathering[0].wait()
            self.gathering = None
            self.flat_whole.data.copy_(self.arriving)
            self.arriving = None
            self._put_into_modules(self.wholes)
        # endregion
