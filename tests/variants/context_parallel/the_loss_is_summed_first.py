"""Sums losses and counts in one all-reduce."""
# region solution sequence_cross_entropy
total = F.cross_entropy(wide(logits).flatten(0, -2), targets.flatten(), ignore_index=ignore_index, reduction="sum")
both = torch.stack([total.detach(), (targets != ignore_index).sum().to(total.dtype)])
dist.all_reduce(both, group=group)
own = total / both[1]
return own + (both[0] / both[1] - own.detach())
# endregion
# region solution sum_gradients
trained = [parameter for parameter in parameters if parameter.requires_grad]
if not trained:
    return
for parameter in trained:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
flat = torch.cat([parameter.grad.reshape(-1) for parameter in trained])
dist.all_reduce(flat, group=group)
for parameter, part in zip(trained, flat.split([parameter.numel() for parameter in trained]), strict=True):
    parameter.grad.copy_(part.view(parameter.shape))
# endregion
