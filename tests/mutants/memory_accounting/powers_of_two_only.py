"""Doubles the batch until it doesn't fit and returns the last power of two.

law: memory_accounting.fit.largest_that_fits
says: one more
"""
# region solution largest_micro_batch
    states = sharded_state_bytes(model_state_bytes(config, precision, optimizer), dp=dp, stage=stage).total
    dtype_bytes = 4 if precision == "fp32" else 2
    best, trial = 0, 1
    while states + activation_bytes(config, trial, sequence, dtype_bytes=dtype_bytes, recompute=recompute) <= device_bytes:
        best, trial = trial, 2 * trial
    return best
# endregion
