"""Divides the room by the bytes of one sequence, as if the mask belonged to each of them.

law: memory_accounting.fit.largest_that_fits
says: one more
"""
# region solution largest_micro_batch
    states = sharded_state_bytes(model_state_bytes(config, precision, optimizer), dp=dp, stage=stage).total
    dtype_bytes = 4 if precision == "fp32" else 2
    one = activation_bytes(config, 1, sequence, dtype_bytes=dtype_bytes, recompute=recompute)
    return max(0, int((device_bytes - states) // one))
# endregion
