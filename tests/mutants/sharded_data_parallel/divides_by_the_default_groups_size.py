"""Divides by the size of the default group, also in a subgroup.

law: sharded_data_parallel.zero1.subgroups_use_their_own_ranks
says: subgroup
"""
        # region solution finish_reduction
        assert self.work is not None and self.received is not None
        self.work.wait()
        mean = self.received.div_(dist.get_world_size())
        self.gradient = mean if self.gradient is None else self.gradient.add_(mean)
        self.work, self.flat, self.received = None, None, None
        # endregion
