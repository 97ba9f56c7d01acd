"""Keeps what is in save only if it is one of the usual matrix products.

law: recomputation.selective.saved_operations_run_once
says: save
"""
# region solution selective_checkpoint
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    return _checkpointed(function, frozenset(save) & {torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default}, args, kwargs)
# endregion
