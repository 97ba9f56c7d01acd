"""Runs the recomputation without gradients first, to find out which outputs there are.

law: recomputation.checkpoint.recomputes_exactly_once
says: once
"""
# region solution checkpoint_forward
        ctx.set_materialize_grads(False)
        ctx.function, ctx.save, ctx.count = function, save, len(tensors)
        ctx.surroundings = remember_surroundings(tensors)
        keeper = Keeper(save)
        with keeper if save else contextlib.nullcontext():
            outputs = function(*tensors)
        ctx.save_for_backward(*tensors, *keeper.outputs)
        return outputs
# endregion

# region solution checkpoint_backward
        saved = ctx.saved_tensors
        tensors, kept = saved[: ctx.count], saved[ctx.count :]
        needed = ctx.needs_input_grad[3:]
        leaves = [tensor.detach().requires_grad_(needs) for tensor, needs in zip(tensors, needed, strict=True)]
        with ctx.surroundings(), torch.no_grad(), Replayer(ctx.save, kept) if ctx.save else contextlib.nullcontext():
            ctx.function(*leaves)
        with ctx.surroundings(), torch.enable_grad(), Replayer(ctx.save, kept) if ctx.save else contextlib.nullcontext():
            outputs = ctx.function(*leaves)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [(y, dy) for y, dy in zip(outputs, gradients, strict=True) if dy is not None and y.requires_grad]
        if pairs:
            torch.autograd.backward([y for y, _ in pairs], [dy for _, dy in pairs])
        return None, None, None, *(leaf.grad for leaf in leaves)
# endregion
