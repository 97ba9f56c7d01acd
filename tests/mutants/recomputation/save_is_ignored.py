"""Is a checkpoint: right gradients, and nothing is saved.

law: recomputation.selective.saved_operations_run_once
says: again
"""
# region solution selective_checkpoint
    return checkpoint(function, *args, **kwargs)
# endregion
