"""Interleaves with one forward of warm-up for each rank behind: the same bubble while messages are free.
"""
# region solution interleaved_one_f_one_b
if num_micro_batches % num_ranks:
    raise ValueError(f"{num_micro_batches} micro-batches are no multiple of {num_ranks} ranks")

# P micro-batches through the first chunk, the same P through the second, and so on. When the first of them has passed all ranks,
# rank 0 has just finished the P-th in the chunk before and takes it up again at once.
groups, chunks = range(0, num_micro_batches, num_ranks), range(num_chunks)
order = [(chunk, first + place) for first in groups for chunk in chunks for place in range(num_ranks)]
schedule = []
for rank in range(num_ranks):
    forwards = [Action(FORWARD, chunk * num_ranks + rank, micro_batch) for chunk, micro_batch in order]
    # Backward begins at the loss: last chunk first.
    backwards = [Action(BACKWARD, (num_chunks - 1 - chunk) * num_ranks + rank, micro_batch) for chunk, micro_batch in order]
    # Micro-batch 0 comes to the last chunk after P forwards in each one before it, and then goes through every rank behind, down and
    # up. One forward for each of these would do if messages took no time; the second one covers the message's way.
    num_warm_up = min((num_ranks - 1 - rank) + (num_chunks - 1) * num_ranks, len(forwards))
    schedule.append(alternating(forwards, backwards, num_warm_up))
return schedule
# endregion
