"""Hooks on autograd's gradient accumulators instead of the parameters, and a callback at the end of backward for what was not used.

The accumulator of a parameter is reached through a view of it, and has to be kept: nobody else does. Gradients are divided before they
travel. The callback starts the rest of the buckets while `backward` is still on the stack; a step without any backward leaves them to
`finish_gradient_synchronization`.
"""
# region solution ddp_init
        self.group = group
        self.num_open_no_syncs = 0
        self.callback_is_queued = False
        broadcast_module_state(module, group)
        self.queue = [Bucket(members) for members in assign_buckets(module.parameters(), bucket_bytes)]
        self.under_way: list[Bucket] = []
        self.missing: set[nn.Parameter] = {parameter for bucket in self.queue for parameter in bucket.parameters}
        self.accumulators = []
        for parameter in self.missing:
            accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            accumulator.register_hook(lambda *unused, parameter=parameter: self._gradient_is_ready(parameter))
            self.accumulators.append(accumulator)
# endregion
# region solution ddp_forward
        return self.module(*inputs, **named)
# endregion
# region solution no_sync
        self.num_open_no_syncs += 1
        try:
            yield
        finally:
            self.num_open_no_syncs -= 1
# endregion
# region solution finish_gradient_synchronization
        while self.queue:
            self._launch(self.queue.pop(0))
        for bucket in self.under_way:
            bucket.work.wait()
            start = 0
            for parameter in bucket.parameters:
                parameter.grad = bucket.flat[start : start + parameter.numel()].reshape(parameter.shape)
                start += parameter.numel()
            bucket.flat = bucket.work = None
        self.queue, self.under_way = self.under_way, []
        self.missing.update(parameter for bucket in self.queue for parameter in bucket.parameters)
# endregion
# region solution gradient_is_ready
        if self.num_open_no_syncs:
            return

        def launch_the_rest() -> None:
            self.callback_is_queued = False
            while self.queue:
                self._launch(self.queue.pop(0))

        if not self.callback_is_queued:
            torch.autograd.Variable._execution_engine.queue_callback(launch_the_rest)
            self.callback_is_queued = True
        self.missing.discard(parameter)
        while self.queue and self.missing.isdisjoint(self.queue[0].parameters):
            self._launch(self.queue.pop(0))
# endregion
# region solution launch
        first = bucket.parameters[0]
        bucket.flat = first.new_zeros(sum(parameter.numel() for parameter in bucket.parameters))
        start = 0
        for parameter in bucket.parameters:
            if parameter.grad is not None:
                bucket.flat[start : start + parameter.numel()] = parameter.grad.flatten()
            start += parameter.numel()
        bucket.flat.div_(dist.get_world_size(self.group))
        bucket.work = dist.all_reduce(bucket.flat, group=self.group, async_op=True)
        self.under_way.append(bucket)
# endregion
