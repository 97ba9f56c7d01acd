"""Collects the norms block by block and forgets the one before the head.

law: tensor_parallel.sequence.whole_weights_collect_their_gradients
says: add up to what is expected
"""
# region solution cut_the_stream
    whole = [norm for block in gpt.blocks for norm in (block.attention_norm, block.mlp_norm)]
    if gpt.position_embedding is not None:
        gpt.position_embedding.register_forward_pre_hook(lambda _, inputs: (own_part(inputs[0], 0, group),))
        whole.append(gpt.position_embedding)
    for parameter in nn.ModuleList(whole).parameters():
        parameter.register_hook(lambda gradient: summed(gradient, group))
    for module in [gpt, *gpt.blocks]:
        module.dropout = RankDropout(module.dropout.p).train(module.dropout.training)
        module.dropout.random = random
# endregion
