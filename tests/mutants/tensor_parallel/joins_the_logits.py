"""Joins the logits, then uses the library's loss.

law: tensor_parallel.vocabulary.logits_are_never_gathered
says: memory
"""
# region solution cross_entropy_forward
        whole = gathered(logits, -1, group)[..., :vocab_size].float()
        with torch.enable_grad():
            whole = whole.detach().requires_grad_()
            loss = F.cross_entropy(whole.reshape(-1, vocab_size), targets.reshape(-1), ignore_index=ignore_index)
        (whole_gradient,) = torch.autograd.grad(loss, whole)
        padded = F.pad(whole_gradient, (0, logits.shape[-1] * dist.get_world_size(group) - vocab_size))
        ctx.save_for_backward(own_part(padded, -1, group))
        ctx.dtype = logits.dtype
        return loss.detach()
# endregion

# region solution cross_entropy_backward
        return (ctx.saved_tensors[0] * gradient).to(ctx.dtype), None, None, None, None
# endregion
