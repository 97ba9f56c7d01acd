"""Gives every rank the whole model: nobody waits for anybody, and everything is computed P times.

law: pipeline_parallel.gpipe.is_complete_and_runs
says: rank
"""
    # region solution gpipe
    stages, micro_batches = range(num_ranks), range(num_micro_batches)
    forwards = [Action(FORWARD, stage, micro_batch) for stage in stages for micro_batch in micro_batches]
    backwards = [Action(BACKWARD, stage, micro_batch) for stage in reversed(stages) for micro_batch in micro_batches]
    return [forwards + backwards for _ in range(num_ranks)]
    # endregion
