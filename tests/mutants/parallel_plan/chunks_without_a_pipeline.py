"""Tries all numbers of chunks without a pipeline too, where each of them is the same plan.

law: parallel_plan.candidates.every_candidate_once
says: once
"""
    # region solution plans_of_one_cut
    zero_stages = (0,) if cut.dp * cut.cp == 1 else (1,) if cut.pp > 1 else (1, 2, 3)
    for ep in divisors(cut.dp):
        for micro_batch in MICRO_BATCHES:
            num_micro_batches = model.global_batch // (cut.dp * micro_batch)
            for wanted in CHUNKS:
                chunks = wanted if cut.pp > 1 else 1
                schedule: ScheduleName = "1f1b" if chunks == 1 else "interleaved"
                batched = replace(
                    cut, ep=ep, micro_batch=micro_batch, num_micro_batches=num_micro_batches, chunks=chunks, schedule=schedule
                )
                if not broken_rules(model, cluster, batched):
                    for zero_stage in zero_stages:
                        yield replace(batched, zero_stage=zero_stage)
                        yield replace(batched, zero_stage=zero_stage, recompute="full")
    # endregion
