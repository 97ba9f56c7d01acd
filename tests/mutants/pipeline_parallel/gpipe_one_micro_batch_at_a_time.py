"""Every micro-batch goes down and up again before the next one begins.

law: pipeline_parallel.gpipe.has_the_published_bubble
says: no pipeline
"""
# region solution gpipe
return [[Action(kind, rank, m) for m in range(num_micro_batches) for kind in (FORWARD, BACKWARD)] for rank in range(num_ranks)]
# endregion
