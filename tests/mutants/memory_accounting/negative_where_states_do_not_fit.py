"""Returns a negative number where the states alone are too large.

law: memory_accounting.fit.nothing_fits_is_zero
says: 0
"""
# region solution largest_micro_batch
    states = sharded_state_bytes(model_state_bytes(config, precision, optimizer), dp=dp, stage=stage).total
    dtype_bytes = 4 if precision == "fp32" else 2

    def activations(sequences):
        return activation_bytes(config, sequences, sequence, dtype_bytes=dtype_bytes, recompute=recompute)

    room = device_bytes - states
    each = activations(2) - activations(1)
    return int((room - (activations(1) - each)) // each)
# endregion
