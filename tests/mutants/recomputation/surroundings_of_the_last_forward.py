"""Remembers the surroundings in one place for all checkpoints: those of the last forward.

law: recomputation.checkpoint.dropout_is_the_same_again
says: other random numbers
"""
# region solution checkpoint_forward
        ctx.set_materialize_grads(False)
        ctx.function, ctx.save, ctx.num_tensors = function, save, len(tensors)
        CheckpointFunction.surroundings = remember_surroundings(tensors)
        keeper = Keeper(save)
        with keeper if save else contextlib.nullcontext():
            outputs = function(*tensors)
        ctx.save_for_backward(*tensors, *keeper.outputs)
        return outputs
# endregion

# region solution checkpoint_backward
        saved = ctx.saved_tensors
        tensors, kept = saved[: ctx.num_tensors], list(saved[ctx.num_tensors :])
        leaves = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in tensors]
        with torch.enable_grad(), CheckpointFunction.surroundings(), Replayer(ctx.save, kept) if ctx.save else contextlib.nullcontext():
            outputs = ctx.function(*leaves)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        used = [(o, g) for o, g in zip(outputs, gradients, strict=True) if g is not None and isinstance(o, Tensor) and o.requires_grad]
        if used:
            torch.autograd.backward(*zip(*used, strict=True))
        return None, None, None, *(leaf.grad for leaf in leaves)
# endregion
