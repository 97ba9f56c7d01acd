"""One forward too few before taking turns.

law: pipeline_parallel.one_f_one_b.has_the_published_bubble
says: too large
"""
# region solution one_f_one_b
schedule = []
for rank in range(num_ranks):
    forwards = [Action(FORWARD, rank, micro_batch) for micro_batch in range(num_micro_batches)]
    backwards = [Action(BACKWARD, rank, micro_batch) for micro_batch in range(num_micro_batches)]
    # Micro-batch 0 has to pass the P-1-r stages behind before its gradient can come back: so many more forwards fill the time.
    # With fewer micro-batches than that there is nothing to fill it with.
    num_warm_up = min(max(num_ranks - 2 - rank, 0), num_micro_batches)
    schedule.append(alternating(forwards, backwards, num_warm_up))
return schedule
# endregion
