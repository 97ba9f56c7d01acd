"""Returns 1 where not even one sequence fits.

law: memory_accounting.fit.nothing_fits_is_zero
says: 0
"""
# region solution largest_micro_batch
    states = sharded_state_bytes(model_state_bytes(config, precision, optimizer), dp=dp, stage=stage).total
    dtype_bytes = 4 if precision == "fp32" else 2

    def fits(sequences):
        return states + activation_bytes(config, sequences, sequence, dtype_bytes=dtype_bytes, recompute=recompute) <= device_bytes

    if not fits(1):
        return 1
    too_many = 2
    while fits(too_many):
        too_many *= 2
    low = too_many // 2
    while too_many - low > 1:
        middle = (low + too_many) // 2
        low, too_many = (middle, too_many) if fits(middle) else (low, middle)
    return low
# endregion
