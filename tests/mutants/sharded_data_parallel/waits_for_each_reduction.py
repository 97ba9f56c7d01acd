"""Waits for a unit's reduction where it starts it; the network and backward take turns.

law: sharded_data_parallel.fsdp.prefetch_hides_the_gathers
says: prefetch
"""
        # region solution fsdp_reduce
        for other in self.units:
            if other is not None:
                other.finish_reduction()
        unit.start_reduction()
        unit.finish_reduction()
        # endregion
