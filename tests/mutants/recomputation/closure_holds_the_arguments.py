"""The function that puts the arguments back holds the tensors themselves, so that they stay when backward has run.

law: recomputation.checkpoint.keeps_inputs_only
says: after backward
"""
# region solution split_arguments
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    rest = list(args)
    named = dict(kwargs)

    def run(*given: Tensor) -> Any:
        following = iter(given)
        positional = [next(following) if isinstance(value, Tensor) else value for value in rest]
        keyword = {name: next(following) if isinstance(value, Tensor) else value for name, value in named.items()}
        return function(*positional, **keyword)

    return CheckpointFunction.apply(run, save, torch.zeros((), requires_grad=True), *tensors)
# endregion
