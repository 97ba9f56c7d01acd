"""Puts shards back into the modules and keeps the memory of the whole weights for the next time.

law: sharded_data_parallel.fsdp.shards_the_weights
says: hold
"""
        # region solution unit_free
        if not self.is_gathered:
            return
        self.finish_gathering()  # memory that the network still writes to can't be given back
        self._put_into_modules(self.shards)
        self.is_gathered = False
        # endregion
