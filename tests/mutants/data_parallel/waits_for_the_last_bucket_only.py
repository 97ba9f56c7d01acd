"""Waits for the bucket that left last and takes all others for landed.

law: data_parallel.overlapped.waits_before_it_returns
says: wait
"""
# region solution ddp_init
        self.group = group
        self.synchronizes = True
        broadcast_module_state(module, group)
        self.buckets = [Bucket(members) for members in assign_buckets(module.parameters(), bucket_bytes)]
        self.bucket_of = {parameter: bucket for bucket in self.buckets for parameter in bucket.parameters}
        self.num_launched = 0
        for parameter in self.bucket_of:
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
        if self.buckets:
            self.buckets[-1].work.wait()
        for bucket in self.buckets:
            bucket.flat /= dist.get_world_size(self.group)
            pieces = bucket.flat.split([parameter.numel() for parameter in bucket.parameters])
            for parameter, piece in zip(bucket.parameters, pieces, strict=True):
                parameter.grad = piece.view(parameter.shape)
            bucket.num_ready, bucket.flat, bucket.work = 0, None, None
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
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket.parameters]
        bucket.flat = torch.cat([gradient.detach().reshape(-1) for gradient in gradients])
        bucket.work = dist.all_reduce(bucket.flat, group=self.group, async_op=True)
        self.num_launched += 1
# endregion
