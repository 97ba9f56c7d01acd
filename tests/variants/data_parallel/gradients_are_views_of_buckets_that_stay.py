"""Each bucket keeps one tensor for good, gradients are views of it from the first step on, and hooks sit on the gradient accumulators.

A parameter whose gradient the caller has set to None gets its view back; one that lies elsewhere is copied in.
"""
# region solution ddp_init
    self.group, self.world_size, self.on = group, dist.get_world_size(group), True
    for tensor in [*module.parameters(), *module.buffers()]:
        copy = tensor.detach().clone(memory_format=torch.contiguous_format)
        dist.broadcast(copy, dist.get_global_rank(group or dist.group.WORLD, 0), group=group)
        with torch.no_grad():
            tensor.copy_(copy)

    # Torch's way of filling: a bucket is closed by the parameter that fills it.
    self.members, open_ones = [], {}
    for parameter in list(module.parameters())[::-1]:
        if not parameter.requires_grad:
            continue
        bucket = open_ones.setdefault(parameter.dtype, [])
        bucket.append(parameter)
        if sum(p.numel() * p.element_size() for p in bucket) >= bucket_bytes:
            self.members.append(open_ones.pop(parameter.dtype))
    self.members += open_ones.values()

    self.memory = [torch.zeros(sum(p.numel() for p in each), dtype=each[0].dtype) for each in self.members]
    self.views = [
        [piece.view(p.shape) for p, piece in zip(each, memory.split([p.numel() for p in each]))]
        for each, memory in zip(self.members, self.memory)
    ]
    self.missing = [len(each) for each in self.members]
    self.works, self.accumulators = [], []
    for index, each in enumerate(self.members):
        for parameter in each:
            accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            accumulator.register_hook(lambda *_, index=index: self._gradient_is_ready(index))
            self.accumulators.append(accumulator)  # or it would be made anew for each forward, without the hook
# endregion

# region solution no_sync
    was_on = self.on
    self.on = False
    try:
        yield
    finally:
        self.on = was_on
# endregion

# region solution finish_gradient_synchronization
    while len(self.works) < len(self.members):
        self._launch(len(self.works))
    for work in self.works:
        work.wait()
    self.works.clear()
    self.missing = [len(each) for each in self.members]
# endregion

# region solution gradient_is_ready
    if self.on:
        self.missing[parameter] -= 1
        while len(self.works) < len(self.members) and self.missing[len(self.works)] == 0:
            self._launch(len(self.works))
# endregion

# region solution launch
    for parameter, view in zip(self.members[bucket], self.views[bucket]):
        if parameter.grad is None:
            view.zero_()
        elif parameter.grad is not view:
            view.copy_(parameter.grad)
        parameter.grad = view
    self.memory[bucket].div_(self.world_size)
    self.works.append(dist.all_reduce(self.memory[bucket], group=self.group, async_op=True))
# endregion
