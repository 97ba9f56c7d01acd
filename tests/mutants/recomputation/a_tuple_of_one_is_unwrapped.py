"""Returns the tensor where the function returns a tuple of one.

law: recomputation.checkpoint.gradients_are_exact
says: tuple
"""
# region solution checkpoint
    outputs = _checkpointed(function, frozenset(), args, kwargs)
    return outputs[0] if isinstance(outputs, tuple) and len(outputs) == 1 else outputs
# endregion
