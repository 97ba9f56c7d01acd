"""Gathers by an all-reduce of tensors that are zero outside of the own range: right bits, twice the volume.

law: sharded_data_parallel.zero1.travels_twice
says: bytes
"""
        # region solution start_gathering
        self.flat = self.parameters[0].new_zeros(self.world_size * self.width)
        begins_at = dist.get_rank(self.group) * self.width
        for shard in self.shards:
            self.flat[begins_at : begins_at + shard.numel()] = shard.detach()
            begins_at += shard.numel()
        self.work = dist.all_reduce(self.flat, group=self.group, async_op=True)
        # endregion
