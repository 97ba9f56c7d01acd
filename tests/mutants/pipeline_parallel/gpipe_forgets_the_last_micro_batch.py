"""Counts to M - 1.

law: pipeline_parallel.gpipe.is_complete_and_runs
says: lacks
"""
# region solution gpipe
kinds, micro_batches = (FORWARD, BACKWARD), range(num_micro_batches - 1)
return [[Action(kind, rank, micro_batch) for kind in kinds for micro_batch in micro_batches] for rank in range(num_ranks)]
# endregion
