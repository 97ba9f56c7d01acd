"""Takes tensors out of the positional arguments only.

law: recomputation.checkpoint.takes_any_arguments
says: keyword
"""
# region solution split_arguments
    tensors = [value for value in args if isinstance(value, Tensor)]
    hole = object()
    rest = [hole if isinstance(value, Tensor) else value for value in args]

    def run(*given: Tensor) -> Any:
        following = iter(given)
        positional = [next(following) if value is hole else value for value in rest]
        return function(*positional, **{name: value.detach() if isinstance(value, Tensor) else value for name, value in kwargs.items()})

    return CheckpointFunction.apply(run, save, torch.zeros((), requires_grad=True), *tensors)
# endregion
