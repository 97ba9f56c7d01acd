"""Refuses an unknown precision without naming those that exist.

law: memory_accounting.states.refuses_unknown_names
says: without naming
"""
# region solution model_state_bytes
    bytes_of: dict[str, tuple[int, int, int, int]] = {
        "fp32": (4, 4, 0, 4),
        "autocast": (4, 4, 0, 4),
        "bf16": (2, 2, 0, 2),
        "mixed": (2, 2, 4, 4),
        "mixed_fp32_gradients": (2, 4, 4, 4),
    }
    num_moments = {"sgd": 0, "momentum": 1, "adam": 2}
    if precision not in bytes_of:
        raise ValueError(f"unknown precision {precision!r}")
    if optimizer not in num_moments:
        raise ValueError(f"optimizer must be one of {', '.join(num_moments)}, not {optimizer!r}")

    weight, gradient, master, moment = bytes_of[precision]
    P = parameter_count(config)
    return ModelStateBytes(P * weight, P * gradient, P * master, P * moment * num_moments[optimizer])
# endregion
