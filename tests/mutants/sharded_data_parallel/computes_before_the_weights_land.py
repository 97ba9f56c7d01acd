"""Puts the whole weights into the modules without waiting for the gather.

law: sharded_data_parallel.fsdp.waits_for_what_it_gathers
says: land
"""
        # region solution unit_wait
        self.start_gathering()
        if self.gathering is not None:
            self.gathering = None
            self._put_into_modules(self.wholes)
        # endregion
