"""Just calls the function where no argument requires grad: right gradients, and all its activations are kept.

law: recomputation.checkpoint.keeps_inputs_only
says: kept
"""
# region solution checkpoint
    if not any(isinstance(v, Tensor) and v.requires_grad for v in (*args, *kwargs.values())):
        return function(*args, **kwargs)
    return _checkpointed(function, frozenset(), args, kwargs)
# endregion
