"""A checkpoint that is called while backward runs just calls its function, whose activations are then held.

law: recomputation.checkpoint.recomputes_exactly_once
says: three
"""
# region solution checkpoint
    if not torch.is_grad_enabled() or torch._C._current_graph_task_id() != -1:
        return function(*args, **kwargs)
    return _checkpointed(function, frozenset(), args, kwargs)
# endregion
