"""Puts RankDropout into the model without sequence parallelism, too: the ranks' copies of the stream drift apart.

law: tensor_parallel.randomness.dropout_is_shared_where_the_stream_is_whole
says: drop
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
            block.mlp.gate = column(block.mlp.gate)
        block.mlp.up, block.mlp.down = column(block.mlp.up), row(block.mlp.down)
    head = column(gpt.head, pad=True)
    gpt.token_embedding = VocabParallelEmbedding(gpt.token_embedding, group, sequence_parallel=sequence_parallel)
    if config.tied:
        head.weight = gpt.token_embedding.weight
    gpt.head = head
    gpt.cross_entropy = functools.partial(vocab_parallel_cross_entropy, group=group, vocab_size=config.vocab_size)
    random = RankRandom(seed, group)
    if sequence_parallel:
        cut_the_stream(gpt, group, random)
    else:
        for module in [gpt, *gpt.blocks]:
            module.dropout = RankDropout(module.dropout.p).train(module.dropout.training)
            module.dropout.random = random
    return gpt
# endregion
