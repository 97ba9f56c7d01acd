"""Cuts gate and up at other places: gate's rows are dealt out, up's are contiguous, and their product mixes channels.

law: tensor_parallel.model.every_architecture
says: mlp.gate.weight
"""
# region solution parallelize
    config, world_size = gpt.config, dist.get_world_size(group)
    for name in ("num_kv_heads", "mlp_size"):
        if getattr(config, name) % world_size:
            raise ValueError(f"{name} {getattr(config, name)} is not divisible by the {world_size} tensor-parallel ranks")
    column = functools.partial(ColumnParallelLinear, group=group, sequence_parallel=sequence_parallel)
    row = functools.partial(RowParallelLinear, group=group, sequence_parallel=sequence_parallel)
    for block in gpt.blocks:
        block.attention.qkv, block.attention.out = column(block.attention.qkv), row(block.attention.out)
        if block.mlp.gate is not None:
            gate = block.mlp.gate
            with torch.no_grad():
                for parameter in gate.parameters():
                    parameter.copy_(parameter.unflatten(0, (-1, world_size)).transpose(0, 1).flatten(0, 1).clone())
            block.mlp.gate = column(gate)
        block.mlp.up, block.mlp.down = column(block.mlp.up), row(block.mlp.down)
    head = column(gpt.head, pad=True)
    gpt.token_embedding = VocabParallelEmbedding(gpt.token_embedding, group, sequence_parallel=sequence_parallel)
    if config.tied:
        head.weight = gpt.token_embedding.weight
    gpt.head = head
    gpt.cross_entropy = functools.partial(vocab_parallel_cross_entropy, group=group, vocab_size=config.vocab_size)
    if sequence_parallel:
        cut_the_stream(gpt, group, RankRandom(seed, group))
    return gpt
# endregion
