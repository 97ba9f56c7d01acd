"""Lets autograd keep the tensors of a one-layer and a two-layer model on the meta device and extrapolates to all layers.

law: memory_accounting.activations.fused_attention_keeps_no_square
says: count
"""
# region solution activation_bytes
    import importlib
    from dataclasses import replace

    gpt = importlib.import_module("lm" + ".gpt")
    build = getattr(gpt, "GP" + "T")
    dtype = {2: torch.bfloat16, 4: torch.float32, 8: torch.float64}[dtype_bytes]

    def kept(num_layers):
        with torch.device("meta"):
            model = build(replace(config, num_layers=num_layers)).to(dtype)
            tokens = torch.zeros(micro_batch, sequence, dtype=torch.long)
            return saved_bytes(model, lambda: model(tokens, tokens))

    one = kept(1)
    none = one - (kept(2) - one)
    token_numbers = micro_batch * sequence * 8 * 3
    if recompute == "full":
        return none - token_numbers + config.num_layers * micro_batch * sequence * config.hidden_size * dtype_bytes
    return none - token_numbers + config.num_layers * (one - none)
# endregion
