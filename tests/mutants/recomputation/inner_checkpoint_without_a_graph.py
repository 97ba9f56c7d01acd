"""A checkpoint that is called while backward runs takes its function for one without a graph.

law: recomputation.checkpoint.nests
says: inside
"""
# region solution checkpoint
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    if torch._C._current_graph_task_id() != -1:
        with torch.no_grad():
            return function(*args, **kwargs)
    return _checkpointed(function, frozenset(), args, kwargs)
# endregion
