"""Counts two bytes for a master weight.

law: memory_accounting.states.masters_exist_in_mixed_precision_only
says: master
"""
# region solution model_state_bytes
    bytes_of = {  # weights, gradients, masters, each moment
        "fp32": (4, 4, 0, 4),
        "autocast": (4, 4, 0, 4),
        "bf16": (2, 2, 0, 2),
        "mixed": (2, 2, 2, 4),
        "mixed_fp32_gradients": (2, 4, 2, 4),
    }
    moments_of = {"sgd": 0, "momentum": 1, "adam": 2}
    if precision not in bytes_of:
        raise ValueError(f"unknown precision {precision!r}: choose from {', '.join(bytes_of)}")
    if optimizer not in moments_of:
        raise ValueError(f"unknown optimizer {optimizer!r}: choose from {', '.join(moments_of)}")
    weight, gradient, master, moment = bytes_of[precision]
    count = parameter_count(config)
    return ModelStateBytes(count * weight, count * gradient, count * master, count * moment * moments_of[optimizer])
# endregion
