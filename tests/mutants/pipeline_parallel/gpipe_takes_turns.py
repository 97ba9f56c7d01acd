"""One forward and one backward in turn, under the name of GPipe.

law: pipeline_parallel.gpipe.forwards_come_first
says: 1F1B
"""
# region solution gpipe
return one_f_one_b(num_ranks, num_micro_batches)
# endregion
