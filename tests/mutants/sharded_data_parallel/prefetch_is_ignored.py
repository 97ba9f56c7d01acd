"""Gathers every unit when it is needed, whatever prefetch says.

law: sharded_data_parallel.fsdp.prefetch_hides_the_gathers
says: prefetch
"""
        # region solution fsdp_fetch
        unit = self.units[number]
        if unit is not None:
            unit.finish_gathering()
        # endregion
