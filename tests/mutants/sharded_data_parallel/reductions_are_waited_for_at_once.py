"""Waits for every reduction inside backward.

law: sharded_data_parallel.fsdp.prefetch_hides_the_gathers
says: overlap
"""
# region solution fsdp_reduce
    for other in self.units:
        if other is not None:
            other.finish_reduction()
    unit.start_reduction()
    unit.finish_reduction()
# endregion
