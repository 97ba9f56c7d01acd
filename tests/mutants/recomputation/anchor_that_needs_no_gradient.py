"""Passes an anchor that doesn't require grad.

law: recomputation.checkpoint.parameters_learn_without_differentiable_inputs
says: parameters
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

    return CheckpointFunction.apply(run, save, torch.zeros(()), *tensors)
# endregion
