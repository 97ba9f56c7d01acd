"""Enables gradients around the call, so that outputs require grad under no_grad too.

law: recomputation.checkpoint.runs_plainly_without_gradients
says: no_grad
"""
# region solution checkpoint
    with torch.enable_grad():
        return _checkpointed(function, frozenset(), args, kwargs)
# endregion
