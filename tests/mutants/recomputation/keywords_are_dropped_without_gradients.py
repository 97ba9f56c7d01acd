"""Calls the function without its keyword arguments where no gradients are recorded.

law: recomputation.checkpoint.runs_plainly_without_gradients
says: without the keyword arguments
"""
# region solution split_arguments
    if not torch.is_grad_enabled():
        return function(*args)
    is_tensor = [isinstance(arg, Tensor) for arg in args]
    names = [name for name, value in kwargs.items() if isinstance(value, Tensor)]
    tensors = [arg for arg, taken in zip(args, is_tensor, strict=True) if taken] + [kwargs[name] for name in names]
    rest = tuple(None if taken else arg for arg, taken in zip(args, is_tensor, strict=True))
    other_kwargs = {name: value for name, value in kwargs.items() if name not in names}

    def call(*given: Tensor) -> Any:
        left = iter(given)
        put_back = [next(left) if taken else arg for arg, taken in zip(rest, is_tensor, strict=True)]
        return function(*put_back, **other_kwargs, **dict(zip(names, left, strict=True)))

    anchor = torch.zeros((), requires_grad=True)
    return CheckpointFunction.apply(call, save, anchor, *tensors)
# endregion
