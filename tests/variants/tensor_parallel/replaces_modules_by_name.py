"""Finds the layers by their names, and sends whole weights through f at each use instead of hooking their gradients."""
# region solution parallelize
    num_ranks = dist.get_world_size(group)
    for name, value in {"num_kv_heads": gpt.config.num_kv_heads, "mlp_size": gpt.config.mlp_size}.items():
        if value % num_ranks != 0:
            raise ValueError(f"{num_ranks} ranks can't share {name} = {value} evenly")

    kinds = {"qkv": ColumnParallelLinear, "gate": ColumnParallelLinear, "up": ColumnParallelLinear,
             "out": RowParallelLinear, "down": RowParallelLinear}  # fmt: skip
    for name, linear in list(gpt.named_modules()):
        parent, _, last = name.rpartition(".")
        if isinstance(linear, nn.Linear) and last in kinds:
            setattr(gpt.get_submodule(parent), last, kinds[last](linear, group, sequence_parallel=sequence_parallel))
    for mlp in [block.mlp for block in gpt.blocks if block.mlp.gate is not None]:
        def enter(module: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
            return all_gather_sequence(inputs[0], group) if sequence_parallel else copy_to_tensor_parallel(inputs[0], group)

        mlp.register_forward_pre_hook(enter)
        mlp.gate.is_entered = mlp.up.is_entered = True
    gpt.token_embedding = VocabParallelEmbedding(gpt.token_embedding, group, sequence_parallel=sequence_parallel)
    gpt.head = ColumnParallelLinear(gpt.head, group, sequence_parallel=sequence_parallel, pad=True)
    if gpt.config.tied:
        gpt.head.weight = gpt.token_embedding.weight

    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        return vocab_parallel_cross_entropy(logits, targets, group, vocab_size=gpt.config.vocab_size)

    gpt.cross_entropy = loss
    if sequence_parallel:
        cut_the_stream(gpt, group, RankRandom(seed, group))
    return gpt
# endregion
# region solution cut_the_stream
    def shared(weight: Tensor | None) -> Tensor | None:
        return None if weight is None else copy_to_tensor_parallel(weight, group)

    def layer_norm(module: nn.LayerNorm, x: Tensor) -> Tensor:
        return F.layer_norm(x, module.normalized_shape, shared(module.weight), shared(module.bias), module.eps)

    def rms_norm(module: nn.RMSNorm, x: Tensor) -> Tensor:
        return F.rms_norm(x, module.normalized_shape, shared(module.weight), module.eps)

    def own_positions(module: nn.Embedding, positions: Tensor) -> Tensor:
        return F.embedding(own_part(positions, 0, group), shared(module.weight))

    for module in list(gpt.modules()):
        if isinstance(module, nn.LayerNorm):
            module.forward = functools.partial(layer_norm, module)
        elif isinstance(module, nn.RMSNorm):
            module.forward = functools.partial(rms_norm, module)
        elif module is gpt.position_embedding:
            module.forward = functools.partial(own_positions, module)
    for module in [gpt, *gpt.blocks]:
        dropout = RankDropout(module.dropout.p, module.dropout.inplace).train(module.dropout.training)
        dropout.random = random
        module.dropout = dropout
# endregion
