"""Warms up the more the further a rank is from the loss in the wrong direction.

law: pipeline_parallel.one_f_one_b.runs_to_its_end
says: wait for each other
"""
# region solution one_f_one_b
schedule = []
for rank in range(num_ranks):
    forwards = [Action(FORWARD, rank, micro_batch) for micro_batch in range(num_micro_batches)]
    backwards = [Action(BACKWARD, rank, micro_batch) for micro_batch in range(num_micro_batches)]
    # Micro-batch 0 has to pass the P-1-r stages behind before its gradient can come back: so many more forwards fill the time.
    # With fewer micro-batches than that there is nothing to fill it with.
    num_warm_up = min(rank, num_micro_batches)
    schedule.append(alternating(forwards, backwards, num_warm_up))
return schedule
# endregion
