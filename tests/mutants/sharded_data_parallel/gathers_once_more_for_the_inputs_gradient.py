"""Frees and gathers each unit again when its reduction begins, in case its inputs' gradient is still to come.

law: sharded_data_parallel.fsdp.travels_three_times
says: gather
"""
        # region solution fsdp_reduce
        for other in self.units:
            if other is not None:
                other.finish_reduction()
        unit.free()
        unit.finish_gathering()
        unit.start_reduction()
        # endregion
