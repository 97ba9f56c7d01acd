"""Calls backward even where no output that has a graph is used.

law: recomputation.checkpoint.gradients_are_exact
says: several outputs
"""
# region solution checkpoint_backward
        saved = ctx.saved_tensors
        tensors, kept = saved[: ctx.num_tensors], list(saved[ctx.num_tensors :])
        leaves = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in tensors]
        with torch.enable_grad(), ctx.surroundings(), Replayer(ctx.save, kept) if ctx.save else contextlib.nullcontext():
            outputs = ctx.function(*leaves)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        used = [(o, g) for o, g in zip(outputs, gradients, strict=True) if g is not None and isinstance(o, Tensor) and o.requires_grad]
        torch.autograd.backward(*zip(*used, strict=True))
        return None, None, None, *(leaf.grad for leaf in leaves)
# endregion
