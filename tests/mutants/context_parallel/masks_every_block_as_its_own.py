"""Uses the triangle for all blocks.

law: context_parallel.ring.output_equals_the_whole
says: output
"""
# region solution visible_blocks
return [(slice(None), slice(None), causal)]
# endregion
