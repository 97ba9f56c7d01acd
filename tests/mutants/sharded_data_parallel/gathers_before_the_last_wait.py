"""Puts the gathered weights in place without waiting for them.

law: sharded_data_parallel.zero1.step_equals_one_process
says: land
"""
# region solution finish_gathering
    assert self.work is not None and self.flat is not None
    pass
    for parameter, piece in zip(self.parameters, self.pieces(self.flat), strict=True):
        parameter.detach().copy_(piece.view(parameter.shape))
    self.work, self.flat, self.received = None, None, None
# endregion
