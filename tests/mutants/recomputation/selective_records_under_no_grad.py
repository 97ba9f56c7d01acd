"""The selective form records a graph even under no_grad.

law: recomputation.selective.gradients_are_exact
says: no_grad
"""
# region solution selective_checkpoint
    with torch.enable_grad():
        return _checkpointed(function, frozenset(save), args, kwargs)
# endregion
