"""Gathers the logits of the whole vocabulary and lets torch compute the loss.

law: tensor_parallel.vocabulary.logits_are_never_gathered
says: memory
"""
# region solution cross_entropy_forward
    ctx.group, ctx.num_rows = group, logits.shape[-1]
    whole = gathered(logits, -1, group)[..., :vocab_size]
    whole = whole.double() if logits.dtype == torch.float64 else whole.float()
    with torch.enable_grad():
        whole = whole.detach().requires_grad_()
        loss = F.cross_entropy(whole.flatten(0, -2), targets.flatten(), ignore_index=ignore_index)
        (d_whole,) = torch.autograd.grad(loss, whole)
    ctx.save_for_backward(d_whole)
    ctx.dtype = logits.dtype
    return loss.detach()
# endregion
# region solution cross_entropy_backward
    (d_whole,) = ctx.saved_tensors
    num_padded = ctx.num_rows * dist.get_world_size(ctx.group) - d_whole.shape[-1]
    d_logits = own_part(F.pad(d_whole, (0, num_padded)), -1, ctx.group) * gradient
    return d_logits.to(ctx.dtype), None, None, None, None
# endregion
