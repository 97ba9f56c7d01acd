"""The second half follows the first, so nothing is won.

law: pipeline_parallel.zero_bubble.has_the_published_bubble
says: nothing is won
"""
# region solution zero_bubble
schedule = []
for actions in one_f_one_b(num_ranks, num_micro_batches):
    schedule.append([])
    for kind, stage, m in actions:
        schedule[-1] += [Action(k, stage, m) for k in ((FORWARD,) if kind == FORWARD else (BACKWARD_INPUT, BACKWARD_WEIGHT))]
return schedule
# endregion
