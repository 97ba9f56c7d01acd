"""Pushes each function on one stack in forward and pops it in backward; a checkpoint inside a forward pushes too, and is never popped.

law: recomputation.checkpoint.nests
says: inside
"""
# region solution split_arguments
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    hole = object()
    rest = [hole if isinstance(value, Tensor) else value for value in args]
    named = {name: hole if isinstance(value, Tensor) else value for name, value in kwargs.items()}

    def run(*given: Tensor) -> Any:
        following = iter(given)
        positional = [next(following) if value is hole else value for value in rest]
        keyword = {name: next(following) if value is hole else value for name, value in named.items()}
        return function(*positional, **keyword)

    return CheckpointFunction.apply(run, save, torch.zeros((), requires_grad=True), *tensors)
# endregion

# region solution checkpoint_forward
        ctx.set_materialize_grads(False)
        CheckpointFunction.__dict__.get("stack") or setattr(CheckpointFunction, "stack", [])
        CheckpointFunction.stack.append(function)
        ctx.save, ctx.count = save, len(tensors)
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
        with ctx.surroundings(), torch.enable_grad(), Replayer(ctx.save, kept) if ctx.save else contextlib.nullcontext():
            outputs = CheckpointFunction.stack.pop()(*leaves)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [(y, dy) for y, dy in zip(outputs, gradients, strict=True) if dy is not None and y.requires_grad]
        if pairs:
            torch.autograd.backward([y for y, _ in pairs], [dy for _, dy in pairs])
        return None, None, None, *(leaf.grad for leaf in leaves)
# endregion
