"""Saves arguments contiguous: copies of those that aren't.

law: recomputation.checkpoint.keeps_inputs_only
says: cop
"""
# region solution checkpoint_forward
        ctx.set_materialize_grads(False)
        ctx.function, ctx.save, ctx.num_tensors = function, save, len(tensors)
        ctx.surroundings = remember_surroundings(tensors)
        keeper = Keeper(save)
        with keeper if save else contextlib.nullcontext():
            outputs = function(*tensors)
        ctx.save_for_backward(*(tensor.contiguous() for tensor in tensors), *keeper.outputs)
        return outputs
# endregion
