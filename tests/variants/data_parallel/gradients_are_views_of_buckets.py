"""Gradients are views of long-lived buckets. What comes back from autograd as another tensor is copied in, what is missing is zeroed."""
# region solution ddp_init
        self.group = group
        self.is_synchronizing = True
        self.turn = 0
        broadcast_module_state(module, group)
        self.buckets = []
        self.view_of: dict[nn.Parameter, torch.Tensor] = {}
        self.home_of: dict[nn.Parameter, Bucket] = {}
        for members in assign_buckets(module.parameters(), bucket_bytes):
            lengths = [parameter.numel() for parameter in members]
            bucket = Bucket(members, flat=members[0].new_zeros(sum(lengths)))
            self.buckets.append(bucket)
            for parameter, piece in zip(members, bucket.flat.split(lengths), strict=True):
                self.view_of[parameter], self.home_of[parameter] = piece.view(parameter.shape), bucket
                parameter.register_post_accumulate_grad_hook(self._gradient_is_ready)
# endregion
# region solution ddp_forward
        return self.module(*inputs, **named)
# endregion
# region solution no_sync
        before = self.is_synchronizing
        self.is_synchronizing = False
        try:
            yield
        finally:
            self.is_synchronizing = before
# endregion
# region solution finish_gradient_synchronization
        for bucket in self.buckets[self.turn :]:
            self._launch(bucket)
        for bucket in reversed(self.buckets):
            bucket.work.wait()
            bucket.flat.div_(dist.get_world_size(self.group))
            bucket.num_ready, bucket.work = 0, None
        self.turn = 0
# endregion
# region solution gradient_is_ready
        if self.is_synchronizing:
            self.home_of[parameter].num_ready += 1
            while self.turn < len(self.buckets) and self.buckets[self.turn].num_ready == len(self.buckets[self.turn].parameters):
                self._launch(self.buckets[self.turn])
# endregion
# region solution launch
        for parameter in bucket.parameters:
            view = self.view_of[parameter]
            if parameter.grad is None:
                view.zero_()
            elif parameter.grad.data_ptr() != view.data_ptr() or parameter.grad.stride() != view.stride():
                view.copy_(parameter.grad)
            parameter.grad = view
        bucket.work = dist.all_reduce(bucket.flat, group=self.group, async_op=True)
        self.turn += 1
# endregion
