"""Gathers float32 and casts what has arrived.

law: sharded_data_parallel.fsdp.dtypes_travel_as_configured
says: weights
"""
# region solution unit_gather
    if self.is_gathered:
        return
    self.is_gathered = True
    self.flat_whole.untyped_storage().resize_(self.whole_bytes)
    mine = self.flat_shard
    arrived = self.flat_shard.new_empty(self.world_size * self.width)
    work = dist.all_gather_into_tensor(arrived, mine, group=self.group, async_op=True)
    self.gathering = (work, arrived)  # `mine` belongs to the network until it is waited for
# endregion

# region solution unit_wait
    self.start_gathering()
    if self.gathering is not None:
        self.gathering[0].wait()
        self.flat_whole.data.copy_(self.gathering[1])
        self.gathering = None
        self._put_into_modules(self.wholes)
# endregion
