"""Keeps p - r micro-batches in flight even where the step has fewer.

law: parallel_plan.memory.stages_hold_layers_and_micro_batches
says: flight
"""
    # region solution stages
    L, p, v, M = model.num_layers, plan.pp, plan.chunks, plan.num_micro_batches
    if p == 1:
        return (Stage(L, has_embedding=True, has_head=True, num_in_flight=1),)

    def in_flight(rank: int) -> float:
        if v == 1:
            return float(p - rank)
        return (2 * (p - 1 - rank) + (v - 1) * p + 1) / v

    least, rest = divmod(L, p)
    first = Stage(least + (rest == p - 1), True, False, in_flight(0))
    middle = Stage(least + (rest > 0), False, False, in_flight(1))
    last = Stage(least, False, True, in_flight(p - 1))
    return (first, middle, last) if p > 2 else (first, last)
    # endregion
