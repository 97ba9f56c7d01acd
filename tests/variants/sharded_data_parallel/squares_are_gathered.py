"""Gathers every rank's sum of squares and adds them up on each rank, in the order of the ranks."""
# region solution sharded_clip
self.reduce_gradients()
return clip_grad_norm_([bucket.gradient for bucket in self.buckets], max_norm, self.group)
# endregion
# region solution clip_grad_norm
gradients = list(gradients)
own = torch.zeros(1, dtype=torch.float64, device=gradients[0].device)
for gradient in gradients:
    own += gradient.double().square().sum()
squares = [torch.zeros_like(own) for _ in range(dist.get_world_size(group))]
dist.all_gather(squares, own, group=group)
norm = torch.cat(squares).sum(0, keepdim=True).sqrt()
factor = torch.minimum(max_norm / (norm + 1e-6), torch.ones_like(norm))
for gradient in gradients:
    gradient.copy_(gradient * factor.to(gradient.dtype)[0])
return norm
# endregion
