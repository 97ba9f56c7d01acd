"""Just calls the function where nothing is to be saved.

law: recomputation.selective.saving_nothing_is_a_checkpoint
says: empty
"""
# region solution selective_checkpoint
    if not save or not torch.is_grad_enabled():
        return function(*args, **kwargs)
    return _checkpointed(function, frozenset(save), args, kwargs)
# endregion
