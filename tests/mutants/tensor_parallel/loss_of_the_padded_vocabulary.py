"""Tells the loss that padding counts.

law: tensor_parallel.model.loss_and_gradients_equal_the_whole
says: logits are right
"""
# region solution parallelize
    config, world_size = gpt.config, dist.get_world_size(group)
    for name in ("num_kv_heads", "mlp_size"):
        if getattr(config, name) % world_size:
            raise ValueError(f"{name} {getattr(config, name)} is not divisible by the {world_size} tensor-parallel ranks")

    column = functools.partial(ColumnParallelLinear, group=group, sequence_parallel=sequence_parallel)
    row = functools.partial(RowParallelLinear, group=group, sequence_parallel=sequence_parallel)
    enter = all_gather_sequence if sequence_parallel else copy_to_tensor_parallel
    for block in gpt.blocks:
        # qkv's rows are laid out group by group, so a contiguous slice is a complete attention with fewer heads: no communication inside.
        block.attention.qkv, block.attention.out = column(block.attention.qkv), row(block.attention.out)
        block.mlp.up, block.mlp.down = column(block.mlp.up), row(block.mlp.down)
        if block.mlp.gate is not None:
            # gate and up are cut at the same places, so their product is local. They share an input, and f stands once before both:
            # behind two f's the same gradient would be summed over the ranks in two halves.
            block.mlp.gate = column(block.mlp.gate)
            block.mlp.gate.is_entered = block.mlp.up.is_entered = True
            block.mlp.register_forward_pre_hook(lambda _, inputs: enter(inputs[0], group))

    head = column(gpt.head, pad=True)
    gpt.token_embedding = VocabParallelEmbedding(gpt.token_embedding, group, sequence_parallel=sequence_parallel)
    if config.tied:
        head.weight = gpt.token_embedding.weight  # cut alike, so they can still be one
    gpt.head = head
    gpt.cross_entropy = functools.partial(vocab_parallel_cross_entropy, group=group, vocab_size=head.weight.shape[0] * world_size)
    if sequence_parallel:
        cut_the_stream(gpt, group, RankRandom(seed, group))
    return gpt
# endregion
