"""Cuts an N-th of the tensor instead of the span that this rank has of it.

law: sharded_data_parallel.whole.loads_into_any_world
says: load
"""
        # region solution cut
        unit = next(unit for unit in self.units if unit is not None and name in unit.names)
        rank, length = dist.get_rank(self.group), len(unit.shards[unit.names.index(name)])
        start = min(rank * -(-whole.numel() // unit.world_size), whole.numel() - length)
        return whole.reshape(-1)[start : start + length].clone()
        # endregion
