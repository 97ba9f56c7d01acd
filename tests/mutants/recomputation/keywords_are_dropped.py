"""Passes on only the keyword arguments that are tensors; the defaults stand in for the others.

law: recomputation.checkpoint.takes_any_arguments
says: keyword
"""
# region solution split_arguments
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    hole = object()
    rest = [hole if isinstance(value, Tensor) else value for value in args]
    named = {name: hole if isinstance(value, Tensor) else value for name, value in kwargs.items() if isinstance(value, Tensor)}

    def run(*given: Tensor) -> Any:
        following = iter(given)
        positional = [next(following) if value is hole else value for value in rest]
        keyword = {name: next(following) if value is hole else value for name, value in named.items()}
        return function(*positional, **keyword)

    return CheckpointFunction.apply(run, save, torch.zeros((), requires_grad=True), *tensors)
# endregion
