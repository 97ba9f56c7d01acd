"""Activations as a list of named memories, each with a multiplicity, from which those are crossed out that recomputation makes again;
parameters as a generator of shapes; the largest batch by walking up one sequence at a time from a first guess below.
"""
# region solution parameter_count
    def linear(inputs, outputs, bias=config.bias):
        yield (outputs, inputs)
        if bias:
            yield (outputs,)

    def norm():
        yield (config.hidden_size,)
        if config.norm == "layernorm" and config.bias:
            yield (config.hidden_size,)

    def block():
        yield from norm()
        yield from linear(config.hidden_size, config.head_dim * (config.num_heads + config.num_kv_heads + config.num_kv_heads))
        yield from linear(config.num_heads * config.head_dim, config.hidden_size)
        yield from norm()
        for _ in range({"gelu": 1, "swiglu": 2}[config.activation]):
            yield from linear(config.hidden_size, config.mlp_size)
        yield from linear(config.mlp_size, config.hidden_size)

    def rest():
        yield (config.vocab_size, config.hidden_size)
        if config.positions != "rotary":
            yield (config.max_tokens, config.hidden_size)
        yield from norm()
        if not config.tied:
            yield from linear(config.hidden_size, config.vocab_size, bias=False)

    def size(shapes):
        total = 0
        for shape in shapes:
            product = 1
            for side in shape:
                product *= side
            total += product
        return total

    return config.num_layers * size(block()) + size(rest())
# endregion
# region solution activation_bytes
    hidden, heads, kv_heads, width = config.hidden_size, config.num_heads, config.num_kv_heads, config.head_dim
    fused = config.attention in ("sdpa", "flash")
    words = micro_batch * sequence

    memories = [  # name, bytes
        ("block input", words * hidden * dtype_bytes),
        ("normed for qkv", words * hidden * dtype_bytes),
        ("input of out", words * hidden * dtype_bytes),
        ("stream after attention", words * hidden * dtype_bytes),
        ("normed for mlp", words * hidden * dtype_bytes),
        ("up", words * config.mlp_size * dtype_bytes),
        ("bent", words * config.mlp_size * dtype_bytes),
    ]
    if config.activation == "swiglu":
        memories += [("gate", words * config.mlp_size * dtype_bytes), ("product", words * config.mlp_size * dtype_bytes)]

    handed_over = [("qkv", words * (heads + 2 * kv_heads) * width * dtype_bytes)]
    query = ("query copy", words * heads * width * dtype_bytes)
    if config.positions == "rotary":
        handed_over += [query, ("key copy", words * kv_heads * width * dtype_bytes)]
    elif kv_heads < heads:
        handed_over += [query]

    if fused or recompute == "selective":
        memories += handed_over
    else:
        memories += [(f"{name} for the product", words * heads * width * dtype_bytes) for name in ("q", "k", "v")]
    if recompute != "selective":
        if fused:
            memories.append(("log-sum-exp", words * heads * 4))
        else:
            memories.append(("softmax", words * sequence * heads * dtype_bytes))
            memories.append(("mask", sequence**2))
    if recompute == "full":
        del memories[1:]

    in_blocks = config.num_layers * sum(num_bytes for _, num_bytes in memories)
    behind = sum(words * size * dtype_bytes for size in (hidden, hidden, config.vocab_size))
    return float(in_blocks + behind)
# endregion
# region solution largest_micro_batch
    width = dict(fp32=4, bf16=2, mixed=2, mixed_fp32_gradients=2)[precision]
    room = device_bytes - sharded_state_bytes(model_state_bytes(config, precision, optimizer), dp=dp, stage=stage).total

    def need(count):
        return activation_bytes(config, count, sequence, dtype_bytes=width, recompute=recompute)

    # What the batch doesn't change is counted in the first sequence, so this guess is never too large.
    count = max(0, int(room // need(1)) - 1)
    while need(count + 1) <= room:
        count += 1
    return count
# endregion
