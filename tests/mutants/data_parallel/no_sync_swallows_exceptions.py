"""Catches whatever is raised inside of no_sync, so that the switch is surely put back.

law: data_parallel.accumulation.no_sync_ends_with_its_block
says: didn't come out of it
"""
        # region solution no_sync
        before, self.is_synchronizing = self.is_synchronizing, False
        try:
            yield
        except Exception:
            pass
        self.is_synchronizing = before
        # endregion
