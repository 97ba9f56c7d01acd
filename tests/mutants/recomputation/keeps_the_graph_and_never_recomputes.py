"""Makes the graph in forward and keeps it: nothing is recomputed.

law: recomputation.checkpoint.fits_where_activations_do_not
says: memory
"""
# region solution checkpoint_forward
        ctx.set_materialize_grads(False)
        ctx.function, ctx.save, ctx.count = function, save, len(tensors)
        ctx.surroundings = remember_surroundings(tensors)
        keeper = Keeper(save)
        ctx.leaves = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in tensors]
        with torch.enable_grad(), keeper if save else contextlib.nullcontext():
            ctx.outputs = function(*ctx.leaves)
        outputs = ctx.outputs.detach() if isinstance(ctx.outputs, Tensor) else tuple(y.detach() for y in ctx.outputs)
        ctx.save_for_backward(*tensors, *keeper.outputs)
        return outputs
# endregion

# region solution checkpoint_backward
        leaves, outputs = ctx.leaves, ctx.outputs
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [(y, dy) for y, dy in zip(outputs, gradients, strict=True) if dy is not None and y.requires_grad]
        if pairs:
            torch.autograd.backward([y for y, _ in pairs], [dy for _, dy in pairs])
        return None, None, None, *(leaf.grad for leaf in leaves)
# endregion
