"""GPipe with its backwards from the last micro-batch to the first, as autograd would.
"""
# region solution gpipe
order = range(num_micro_batches)
return tuple(
    tuple([Action(FORWARD, rank, m) for m in order] + [Action(BACKWARD, rank, m) for m in reversed(order)]) for rank in range(num_ranks)
)
# endregion
