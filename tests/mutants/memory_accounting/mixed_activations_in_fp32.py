"""Takes four bytes per activation in the mixed precisions, since their masters are fp32.

law: memory_accounting.fit.largest_that_fits
says: mixed
"""
# region solution largest_micro_batch
    states = sharded_state_bytes(model_state_bytes(config, precision, optimizer), dp=dp, stage=stage).total
    dtype_bytes = 2 if precision == "bf16" else 4

    def fits(sequences):
        return states + activation_bytes(config, sequences, sequence, dtype_bytes=dtype_bytes, recompute=recompute) <= device_bytes

    if not fits(1):
        return 0
    too_many = 2
    while fits(too_many):
        too_many *= 2
    low = too_many // 2
    while too_many - low > 1:
        middle = (low + too_many) // 2
        low, too_many = (middle, too_many) if fits(middle) else (low, middle)
    return low
# endregion
