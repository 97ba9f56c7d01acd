"""A rank that owns nothing of a bucket does not call its all-gather.

law: sharded_data_parallel.zero1.fewer_elements_than_ranks
says: rank
"""
        # region solution start_gathering
        mine = self.parameters[0].new_zeros(self.width)
        torch.cat([shard.detach() for shard in self.shards], out=mine[: sum(shard.numel() for shard in self.shards)])
        self.flat = mine.new_empty(self.world_size * self.width)
        if any(shard.numel() for shard in self.shards):
            self.work = dist.all_gather_into_tensor(self.flat, mine, group=self.group, async_op=True)
        self.received = mine  # belongs to the network until it is waited for
        # endregion
        # region solution finish_gathering
        if self.work is None:
            return
        self.work.wait()
        for parameter, piece in zip(self.parameters, self.pieces(self.flat), strict=True):
            parameter.detach().copy_(piece.view(parameter.shape))
        self.work, self.flat, self.received = None, None, None
        # endregion
