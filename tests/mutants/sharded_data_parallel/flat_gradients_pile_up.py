"""Waits for all reductions at the end of backward: every unit's flat gradients are in memory until then.

law: sharded_data_parallel.fsdp.one_unit_at_a_time
says: unit
"""
        # region solution fsdp_reduce
        unit.start_reduction()
        # endregion
