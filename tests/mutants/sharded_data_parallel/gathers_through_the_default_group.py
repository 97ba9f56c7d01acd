"""Gathers the weights through the default group, whose other ranks never call.

law: sharded_data_parallel.zero1.subgroups_use_their_own_ranks
says: subgroup
"""
        # region solution start_gathering
        mine = self.parameters[0].new_zeros(self.width)
        torch.cat([shard.detach() for shard in self.shards], out=mine[: sum(shard.numel() for shard in self.shards)])
        self.flat = mine.new_empty(self.world_size * self.width)
        self.work = dist.all_gather_into_tensor(self.flat, mine, async_op=True)
        self.received = mine  # belongs to the network until it is waited for
        # endregion
