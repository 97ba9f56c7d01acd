"""Marks a tensor's place with None, so that a None among the arguments takes a tensor's place.

law: recomputation.checkpoint.takes_any_arguments
says: argument
"""
# region solution split_arguments
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    hole = None
    rest = [hole if isinstance(value, Tensor) else value for value in args]
    named = {name: hole if isinstance(value, Tensor) else value for name, value in kwargs.items()}

    def run(*given: Tensor) -> Any:
        following = iter(given)
        positional = [next(following) if value is hole else value for value in rest]
        keyword = {name: next(following) if value is hole else value for name, value in named.items()}
        return function(*positional, **keyword)

    return CheckpointFunction.apply(run, save, torch.zeros((), requires_grad=True), *tensors)
# endregion
