"""Sends the updated weights in bfloat16 to save half the volume.

law: sharded_data_parallel.zero1.step_equals_one_process
says: parameter
"""
        # region solution start_gathering
        mine = self.parameters[0].new_zeros(self.width)
        torch.cat([shard.detach() for shard in self.shards], out=mine[: sum(shard.numel() for shard in self.shards)])
        mine = mine.to(torch.bfloat16)
        self.flat = mine.new_empty(self.world_size * self.width)
        self.work = dist.all_gather_into_tensor(self.flat, mine, group=self.group, async_op=True)
        self.received = mine  # belongs to the network until it is waited for
        # endregion
