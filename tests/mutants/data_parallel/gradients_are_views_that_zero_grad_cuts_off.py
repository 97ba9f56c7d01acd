"""Makes the gradients views of buckets once, in the constructor; gradients set to None come back as others, and old averages travel.

law: data_parallel.overlapped.works_step_after_step
says: None
"""
# region solution ddp_init
        self.group = group
        self.synchronizes = True
        self.num_launched = 0
        broadcast_module_state(module, group)
        self.buckets = [Bucket(members) for members in assign_buckets(module.parameters(), bucket_bytes)]
        self.bucket_of = {parameter: bucket for bucket in self.buckets for parameter in bucket.parameters}
        for bucket in self.buckets:
            lengths = [parameter.numel() for parameter in bucket.parameters]
            bucket.flat = torch.zeros(sum(lengths), dtype=bucket.parameters[0].dtype, device=bucket.parameters[0].device)
            for parameter, piece in zip(bucket.parameters, bucket.flat.split(lengths), strict=True):
                parameter.grad = piece.view(parameter.shape)
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
            bucket.flat /= dist.get_world_size(self.group)
            bucket.num_ready, bucket.work = 0, None
        self.num_launched = 0
# endregion
# region solution gradient_is_ready
        if not self.synchronizes:
            return
        self.bucket_of[parameter].num_ready += 1
        while self.num_launched < len(self.buckets):
            bucket = self.buckets[self.num_launched]
            if bucket.num_ready < len(bucket.parameters):
                return
            self._launch(bucket)
# endregion
# region solution launch
        bucket.work = dist.all_reduce(bucket.flat, group=self.group, async_op=True)
        self.num_launched += 1
# endregion
