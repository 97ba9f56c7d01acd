"""Keeps a flat copy of the parameters for the next gather.

law: sharded_data_parallel.zero1.holds_at_scale
says: held
"""
# region solution finish_gathering
    assert self.work is not None and self.flat is not None
    self.work.wait()
    for parameter, piece in zip(self.parameters, self.pieces(self.flat), strict=True):
        parameter.detach().copy_(piece.view(parameter.shape))
    self.work, self.kept, self.received = None, self.flat, None
# endregion
