"""Hands no keyword on in the selective form.

law: recomputation.selective.gradients_are_exact
says: missing
"""
# region solution selective_checkpoint
    return _checkpointed(function, frozenset(save), args, {})
# endregion
