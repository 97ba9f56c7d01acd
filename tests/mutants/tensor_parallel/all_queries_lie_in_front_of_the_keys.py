"""Takes the rows of grouped queries to lie in front of all keys and values, and cuts the two stretches one by one.

law: tensor_parallel.model.every_architecture
says: loss
"""
# region solution parallelize
    config, world_size = gpt.config, dist.get_world_size(group)
    for name in ("num_kv_heads", "mlp_size"):
        if getattr(config, name) % world_size:
            raise ValueError(f"{name} {getattr(config, name)} is not divisible by the {world_size} tensor-parallel ranks")
    column = functools.partial(ColumnParallelLinear, group=group, sequence_parallel=sequence_parallel)
    row = functools.partial(RowParallelLinear, group=group, sequence_parallel=sequence_parallel)
    for block in gpt.blocks:
        qkv, heads = block.attention.qkv, config.num_heads
        share = qkv.out_features // (config.num_heads + 2 * config.num_kv_heads)
        order = torch.arange(qkv.out_features).view(-1, share)
        if config.num_kv_heads < heads:
            order = torch.cat([torch.cat(pair) for pair in zip(order[:heads].chunk(world_size), order[heads:].chunk(world_size))])
        with torch.no_grad():
            for parameter in qkv.parameters():
                parameter.copy_(parameter[order.flatten()].clone())
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
