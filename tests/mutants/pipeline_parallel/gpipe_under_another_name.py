"""All forwards first: the right bubble, and all activations in memory.

law: pipeline_parallel.one_f_one_b.keeps_few_micro_batches
says: GPipe
"""
# region solution one_f_one_b
return gpipe(num_ranks, num_micro_batches)
# endregion
