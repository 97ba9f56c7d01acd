"""Keeps the outputs of all matrix products as soon as one is to be saved.

law: recomputation.selective.keeps_what_it_was_told
says: save
"""
# region solution selective_checkpoint
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    return _checkpointed(function, frozenset({*save, torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default} if save else ()), args, kwargs)
# endregion
