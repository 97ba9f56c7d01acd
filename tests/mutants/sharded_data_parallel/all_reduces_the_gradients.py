"""All-reduces the flat gradients and keeps its part.

law: sharded_data_parallel.zero1.travels_twice
says: all-reduce
"""
# region solution start_reduction
    self.flat = self.parameters[0].new_zeros(self.world_size * self.width)
    for parameter, piece in zip(self.parameters, self.pieces(self.flat), strict=True):
        if parameter.grad is not None:
            piece.view(parameter.shape).copy_(parameter.grad)
    self.received = self.flat.new_empty(self.width)
    self.work = dist.all_reduce(self.flat, group=self.group, async_op=True)
# endregion

# region solution finish_reduction
    assert self.work is not None and self.received is not None
    self.work.wait()
    self.received = self.flat.chunk(self.world_size)[dist.get_rank(self.group)].clone()
    mean = self.received.div_(self.world_size)
    self.gradient = mean if self.gradient is None else self.gradient.add_(mean)
    self.work, self.flat, self.received = None, None, None
# endregion
