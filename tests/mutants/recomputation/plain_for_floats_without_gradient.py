"""Just calls the function where its arguments are floats that require no grad: the parameters' activations are all kept.

law: recomputation.checkpoint.keeps_inputs_only
says: kept
"""
# region solution checkpoint
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    if not any(value.requires_grad or not value.is_floating_point() for value in tensors):
        return function(*args, **kwargs)
    return _checkpointed(function, frozenset(), args, kwargs)
# endregion
