"""Collects the parameters layer by layer, so that one that two layers share is sent twice.

law: data_parallel.overlapped.frozen_stay_out_and_shared_travel_once
says: shared
"""
# region solution ddp_init
        self.group = group
        self.synchronizes = True
        self.num_launched = 0
        broadcast_module_state(module, group)
        by_layer = [parameter for layer in module.modules() for parameter in layer.parameters(recurse=False)]
        self.buckets = [Bucket(members) for members in assign_buckets(by_layer, bucket_bytes)]
        for parameter in module.parameters():
            if parameter.requires_grad:
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
            pieces = bucket.flat.split([parameter.numel() for parameter in bucket.parameters])
            for parameter, piece in zip(bucket.parameters, pieces, strict=True):
                parameter.grad = piece.view(parameter.shape)
            bucket.num_ready, bucket.flat, bucket.work = 0, None, None
        self.num_launched = 0
# endregion
# region solution gradient_is_ready
        if not self.synchronizes:
            return
        for bucket in self.buckets:
            bucket.num_ready += sum(member is parameter for member in bucket.parameters)
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
