"""Each bucket is one coalesced call over the gradients themselves: nothing is joined and nothing is cut up."""
# region solution ddp_init
        self.group = group
        self.quiet = False
        self.next = 0
        broadcast_module_state(module, group)
        self.buckets = [Bucket(members) for members in assign_buckets(module.parameters(), bucket_bytes)]
        for bucket in self.buckets:
            for parameter in bucket.parameters:
                parameter.register_post_accumulate_grad_hook(self._gradient_is_ready)
# endregion
# region solution ddp_forward
        return self.module(*inputs, **named)
# endregion
# region solution no_sync
        outer = self.quiet
        self.quiet = True
        try:
            yield
        finally:
            self.quiet = outer
# endregion
# region solution finish_gradient_synchronization
        for bucket in self.buckets[self.next :]:
            self._launch(bucket)
        for bucket in self.buckets:
            bucket.work.wait()
            for parameter in bucket.parameters:
                parameter.grad /= dist.get_world_size(self.group)
            bucket.num_ready, bucket.work = 0, None
        self.next = 0
# endregion
# region solution gradient_is_ready
        if self.quiet:
            return
        for bucket in self.buckets:
            bucket.num_ready += any(member is parameter for member in bucket.parameters)
        for waiting in self.buckets[self.next :]:
            if waiting.num_ready < len(waiting.parameters):
                break
            self._launch(waiting)
# endregion
# region solution launch
        for parameter in bucket.parameters:
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad = gradient.detach().contiguous()
        gradients = [parameter.grad for parameter in bucket.parameters]
        bucket.work = dist.all_reduce_coalesced(gradients, group=self.group, async_op=True)
        self.next += 1
# endregion
