"""Lets every owner broadcast its range, which takes N broadcasts and N/(N-1) of an all-gather's volume.

law: sharded_data_parallel.zero1.travels_twice
says: bytes
"""
        # region solution start_gathering
        mine = self.parameters[0].new_zeros(self.width)
        torch.cat([shard.detach() for shard in self.shards], out=mine[: sum(shard.numel() for shard in self.shards)])
        self.flat = mine.new_empty(self.world_size * self.width)
        for rank, piece in enumerate(self.flat.chunk(self.world_size)):
            if rank == dist.get_rank(self.group):
                piece.copy_(mine)
            self.work = dist.broadcast(piece, group=self.group, group_src=rank, async_op=True)
            self.work.wait()
        # endregion
        # region solution finish_gathering
        assert self.flat is not None
        for parameter, piece in zip(self.parameters, self.pieces(self.flat), strict=True):
            parameter.detach().copy_(piece.view(parameter.shape))
        self.work, self.flat, self.received = None, None, None
        # endregion
