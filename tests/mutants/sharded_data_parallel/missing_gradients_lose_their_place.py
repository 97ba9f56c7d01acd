"""Joins only the gradients that are there.

law: sharded_data_parallel.zero1.missing_gradients_count_as_zeros
says: weight
"""
# region solution start_reduction
    self.flat = self.parameters[0].new_zeros(self.world_size * self.width)
    there = [p.grad.reshape(-1) for p in self.parameters if p.grad is not None]
    if there:
        joined = torch.cat(there)
        self.flat[: len(joined)] = joined
    self.received = self.flat.new_empty(self.width)
    self.work = dist.reduce_scatter_tensor(self.received, self.flat, group=self.group, async_op=True)
# endregion
