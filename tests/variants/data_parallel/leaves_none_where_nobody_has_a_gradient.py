"""A map of the used parameters tells whether anybody had a gradient; where nobody had, grad stays None. Gradients keep their tensors.

The sum is divided when it is handed out, no_sync counts its depth, and the map travels as integers behind the last bucket.
"""
# region solution ddp_init
    self.group, self.size = group, dist.get_world_size(group)
    self.depth = 0
    broadcast_module_state(module, group)
    self.buckets = [Bucket(parameters) for parameters in assign_buckets(module.parameters(), bucket_bytes)]
    self.of = {id(p): bucket for bucket in self.buckets for p in bucket.parameters}
    self.trained = [p for bucket in self.buckets for p in bucket.parameters]
    self.next = 0
    for parameter in self.trained:
        parameter.register_post_accumulate_grad_hook(self._gradient_is_ready)
# endregion

# region solution no_sync
    self.depth += 1
    try:
        yield
    finally:
        self.depth -= 1
# endregion

# region solution finish_gradient_synchronization
    while self.next < len(self.buckets):
        self._launch(self.buckets[self.next])
    used = torch.tensor([p.grad is not None for p in self.trained], dtype=torch.int32)
    dist.all_reduce(used, dist.ReduceOp.MAX, group=self.group)
    anybody = dict(zip(map(id, self.trained), used.tolist()))
    for bucket in self.buckets:
        bucket.work.wait()
        for parameter, piece in zip(bucket.parameters, bucket.flat.split([p.numel() for p in bucket.parameters])):
            if anybody[id(parameter)]:
                parameter.grad = torch.empty_like(parameter) if parameter.grad is None else parameter.grad
                parameter.grad.copy_(piece.view(parameter.shape)).div_(self.size)
        bucket.num_ready = 0
    self.next = 0
# endregion

# region solution gradient_is_ready
    if self.depth:
        return
    self.of[id(parameter)].num_ready += 1
    while self.next < len(self.buckets) and self.buckets[self.next].num_ready == len(self.buckets[self.next].parameters):
        self._launch(self.buckets[self.next])
# endregion

# region solution launch
    bucket.flat = torch.cat([torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in bucket.parameters])
    bucket.work = dist.all_reduce(bucket.flat, group=self.group, async_op=True)
    self.next += 1
# endregion
