"""Takes an empty save for the usual choice of matrix products.

law: recomputation.selective.saving_nothing_is_a_checkpoint
says: empty
"""
# region solution selective_checkpoint
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    return _checkpointed(function, frozenset(save or {torch.ops.aten.mm.default, torch.ops.aten.addmm.default}), args, kwargs)
# endregion
