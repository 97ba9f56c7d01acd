"""Waits only for gathers that it has started itself; one that was prefetched counts as landed.

law: sharded_data_parallel.fsdp.waits_for_what_it_gathers
says: land
"""
        # region solution unit_wait
        was_prefetched = self.is_gathered
        self.start_gathering()
        if self.gathering is not None:
            if not was_prefetched:
                self.gathering[0].wait()
            self.gathering = None
            self._put_into_modules(self.wholes)
        # endregion
