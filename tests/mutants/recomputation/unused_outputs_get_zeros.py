"""Lets autograd hand zeros to backward for outputs that nobody used.

law: recomputation.checkpoint.gradients_are_exact
says: nobody used
"""
# region solution checkpoint_forward
        ctx.function, ctx.save, ctx.num_tensors = function, save, len(tensors)
        ctx.surroundings = remember_surroundings(tensors)
        keeper = Keeper(save)
        with keeper if save else contextlib.nullcontext():
            outputs = function(*tensors)
        ctx.save_for_backward(*tensors, *keeper.outputs)
        return outputs
# endregion
