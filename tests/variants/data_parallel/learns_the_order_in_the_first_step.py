"""Sends everything at the end of the first step, sees in which order gradients came, and cuts the buckets anew in rank 0's order."""
# region solution ddp_init
        self.group = group
        self.synchronizes = True
        self.num_launched = 0
        self.bucket_bytes = bucket_bytes
        self.seen: list[int] | None = []
        broadcast_module_state(module, group)
        self.trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self.buckets = [Bucket(members) for members in assign_buckets(self.trainable, bucket_bytes)]
        self.bucket_of = {parameter: bucket for bucket in self.buckets for parameter in bucket.parameters}
        self.place_of = {parameter: place for place, parameter in enumerate(self.trainable)}
        for parameter in self.trainable:
            parameter.register_post_accumulate_grad_hook(self._gradient_is_ready)
# endregion
# region solution ddp_forward
        return self.module(*inputs, **named)
# endregion
# region solution no_sync
        before, self.synchronizes = self.synchronizes, False
        try:
            yield
        finally:
            self.synchronizes = before
# endregion
# region solution finish_gradient_synchronization
        for bucket in self.buckets[self.num_launched :]:
            self._launch(bucket)
        for bucket in self.buckets:
            bucket.work.wait()
            mean = bucket.flat / dist.get_world_size(self.group)
            for parameter, piece in zip(bucket.parameters, mean.split([p.numel() for p in bucket.parameters]), strict=True):
                parameter.grad = piece.view(parameter.shape)
            bucket.num_ready, bucket.flat, bucket.work = 0, None, None
        self.num_launched = 0
        if self.seen is not None and self.trainable:
            in_declared_order = range(len(self.trainable) - 1, -1, -1)
            order = [*self.seen, *(place for place in in_declared_order if place not in self.seen)]
            agreed = torch.tensor(order, dtype=torch.int64, device=self.trainable[0].device)
            dist.broadcast(agreed, group=self.group, group_src=0)
            learned = [self.trainable[place] for place in reversed(agreed.tolist())]
            self.buckets = [Bucket(members) for members in assign_buckets(learned, self.bucket_bytes)]
            self.bucket_of = {parameter: bucket for bucket in self.buckets for parameter in bucket.parameters}
            self.seen = None
# endregion
# region solution gradient_is_ready
        if not self.synchronizes:
            return
        if self.seen is not None:
            self.seen.append(self.place_of[parameter])
            return
        self.bucket_of[parameter].num_ready += 1
        while self.num_launched < len(self.buckets):
            bucket = self.buckets[self.num_launched]
            if bucket.num_ready < len(bucket.parameters):
                return
            self._launch(bucket)
# endregion
# region solution launch
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket.parameters]
        bucket.flat = torch.cat([gradient.detach().reshape(-1) for gradient in gradients])
        bucket.work = dist.all_reduce(bucket.flat, group=self.group, async_op=True)
        self.num_launched += 1
# endregion
