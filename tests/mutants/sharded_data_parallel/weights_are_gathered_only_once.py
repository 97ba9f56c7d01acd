"""Never gathers again: weights of the first forward serve for ever.

law: sharded_data_parallel.fsdp.trains_like_one_process
says: weight
"""
# region solution unit_gather
    if self.is_gathered:
        return
    self.is_gathered = True
    self.flat_whole.untyped_storage().resize_(self.whole_bytes)
    mine = self.flat_shard.to(self.compute_dtype)
    self.seen = getattr(self, 'seen', None)
    if self.seen is not None:
        self.flat_whole.data.copy_(self.seen)
        self._put_into_modules(self.wholes)
        return
    work = dist.all_gather_into_tensor(self.flat_whole.data, mine, group=self.group, async_op=True)
    self.gathering = (work, mine)  # `mine` belongs to the network until it is waited for
# endregion

# region solution unit_wait
    self.start_gathering()
    if self.gathering is not None:
        self.gathering[0].wait()
        self.gathering = None
        self.seen = self.flat_whole.data.clone()
        self._put_into_modules(self.wholes)
# endregion
