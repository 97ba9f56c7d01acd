"""Nothing is joined: the gradients of a bucket travel as a list, in one coalesced call, and are averaged where they are."""
# region solution launch
    for parameter in bucket.parameters:
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        parameter.grad = gradient.contiguous()
    gradients = [parameter.grad for parameter in bucket.parameters]
    bucket.work = dist.all_reduce_coalesced(gradients, group=self.group, async_op=True)
    self.num_launched += 1
# endregion

# region solution finish_gradient_synchronization
    for bucket in self.buckets[self.num_launched :]:
        self._launch(bucket)
    for bucket in self.buckets:
        bucket.work.wait()
        for parameter in bucket.parameters:
            parameter.grad.mul_(1 / dist.get_world_size(self.group))
        bucket.num_ready = 0
    self.num_launched = 0
# endregion
