"""After the warm-up takes a backward first and a forward then: the last rank begins with the backward of what it hasn't seen.

law: pipeline_parallel.one_f_one_b.is_complete
says: forward
"""
    # region solution alternating
    actions = forwards[:num_warm_up]
    for forward, backward in zip(forwards[num_warm_up:], backwards, strict=False):
        actions += [backward, forward]
    return actions + backwards[len(forwards) - num_warm_up :]
    # endregion
