"""After the warm-up a backward and then a forward, so the last rank begins with a backward.

law: pipeline_parallel.one_f_one_b.is_complete
says: forward first
"""
# region solution alternating
actions = forwards[:num_warm_up]
# A forward first: its backward comes next, or one that a forward before it has made possible.
for forward, backward in zip(forwards[num_warm_up:], backwards, strict=False):
    actions += [backward, forward]
return actions + backwards[len(forwards) - num_warm_up :]
# endregion
