"""Raises where no gradients are recorded, since there is nothing to checkpoint.

law: recomputation.checkpoint.runs_plainly_without_gradients
says: no_grad
"""
# region solution checkpoint
    if not torch.is_grad_enabled():
        raise RuntimeError("checkpoint is for training: gradients are not being recorded")
    return _checkpointed(function, frozenset(), args, kwargs)
# endregion
