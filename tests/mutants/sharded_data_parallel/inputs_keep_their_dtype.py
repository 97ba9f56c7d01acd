"""Doesn't cast the inputs.

law: sharded_data_parallel.fsdp.masters_keep_their_precision
says: compute dtype
"""
# region solution fsdp_forward
    if not self.in_backward:
        self._free_all()
    self._before_forward(0)
    outputs = self.module(*inputs, **named)
    self._after_forward(0, outputs)
    return outputs
# endregion
