"""Exact fractions inside, closed forms instead of branches: booleans as factors, the published sum from its table of parts, the largest
batch from the slope and the intercept of the activations. Ints where they come out even, floats elsewhere.
"""
# region solution model_state_bytes
    if precision not in ("fp32", "autocast", "bf16", "mixed", "mixed_fp32_gradients"):
        raise ValueError("precision must be fp32, autocast, bf16, mixed or mixed_fp32_gradients")
    if optimizer not in (moments := {"adam": 2, "momentum": 1, "sgd": 0}):
        raise ValueError(f"optimizer must be one of {list(moments)}")
    converted, has_master = precision == "bf16", precision.startswith("mixed")
    read = 2 if converted or has_master else 4
    stepped = 4 if has_master else read
    summed = 4 if precision.endswith("fp32_gradients") else read
    per_weight = (read, summed, stepped * has_master, stepped * moments[optimizer])
    return ModelStateBytes(*(float(each) * parameter_count(config) for each in per_weight))
# endregion
# region solution sharded_state_bytes
    from dataclasses import fields, replace
    from fractions import Fraction

    try:
        cut_from = ("moments", "master_weights", "gradients", "weights")[: (0, 2, 3, 4)[{0: 0, 1: 1, 2: 2, 3: 3}[stage]]]
    except KeyError as error:
        raise ValueError("ZeRO has the stages 0, 1, 2 and 3") from error

    def share(name):
        exact = Fraction(getattr(states, name)) / tp / pp / (dp if name in cut_from else 1)
        return exact.numerator if exact.denominator == 1 else float(exact)

    return replace(states, **{field.name: share(field.name) for field in fields(states)})
# endregion
# region solution published_layer_bytes
    from fractions import Fraction

    # part, bytes per s·b·h, and whether a tensor-parallel rank holds its own share only
    square = Fraction(config.num_heads * sequence, config.hidden_size)
    parts = [
        ("attention norm", 2, False), ("attention input", 2, False), ("q", 2, True), ("k", 2, True), ("v", 2, True),
        ("softmax", 2 * square, True), ("softmax mask", square, True), ("softmax dropped", 2 * square, True),
        ("projection input", 2, True), ("projection mask", 1, False), ("mlp norm", 2, False), ("mlp input", 2, False),
        ("gelu input", 8, True), ("second input", 8, True), ("mlp mask", 1, False),
    ]  # fmt: skip
    if recompute == "selective":
        parts = [part for part in parts if not part[0].startswith("softmax")]
    units = sum(Fraction(size) / (tp if own or sequence_parallel else 1) for _, size, own in parts)
    if recompute == "full":
        units = Fraction(2)
    return float(units * sequence * micro_batch * config.hidden_size)
# endregion
# region solution published_activation_bytes
    tokens, shared = micro_batch * sequence, (tp if sequence_parallel else 1)
    one_layer = published_layer_bytes(config, micro_batch, sequence, tp=tp, sequence_parallel=sequence_parallel, recompute=recompute)
    chunks_under_way = pp * interleave + (pp - 1) * (interleave > 1)
    layers = one_layer * config.num_layers * chunks_under_way / (pp * interleave)
    after_blocks = tokens * (2 + 2) * config.hidden_size / shared + tokens * 4 * config.vocab_size / tp
    return PublishedActivationBytes(
        layers=layers, embedding=pp * tokens * config.hidden_size / shared, head=after_blocks * (pp < 2)
    )
# endregion
# region solution largest_micro_batch
    import math

    width = 2 + 2 * (precision == "fp32")
    held = sharded_state_bytes(model_state_bytes(config, precision, optimizer), dp=dp, stage=stage).total
    first, second = (activation_bytes(config, n, sequence, dtype_bytes=width, recompute=recompute) for n in (1, 2))
    slope = second - first
    best = max(0, math.floor((device_bytes - held - (first - slope)) / slope))
    # Division in floats may be off by one at an exact fit.
    for count in (best + 1, best, best - 1):
        if count > 0 and held + first + (count - 1) * slope <= device_bytes:
            return count
    return 0
# endregion
