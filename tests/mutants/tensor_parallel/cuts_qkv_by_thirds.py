"""Takes the rows of qkv for queries, then keys, then values, and cuts each third.

law: tensor_parallel.model.starts_from_the_whole_weights
says: It holds rows
"""
# region solution parallelize
    config, world_size = gpt.config, dist.get_world_size(group)
    for name in ("num_kv_heads", "mlp_size"):
        if getattr(config, name) % world_size:
            raise ValueError(f"{name} {getattr(config, name)} is not divisible by the {world_size} tensor-parallel ranks")
    column = functools.partial(ColumnParallelLinear, group=group, sequence_parallel=sequence_parallel)
    row = functools.partial(RowParallelLinear, group=group, sequence_parallel=sequence_parallel)
    for block in gpt.blocks:
        qkv, sizes = block.attention.qkv, [config.num_heads, config.num_kv_heads, config.num_kv_heads]
        order = torch.arange(qkv.out_features).split([size * config.head_dim for size in sizes])
        order = torch.stack([torch.cat(pieces) for pieces in zip(*(rows.chunk(world_size) for rows in order))]).flatten()
        with torch.no_grad():
            for parameter in qkv.parameters():
                parameter.copy_(parameter[order].clone())
        block.attention.qkv, block.attention.out = column(qkv), row(block.attention.out)
        if block.mlp.gate is not None:
            block.mlp.gate = column(block.mlp.gate)
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
