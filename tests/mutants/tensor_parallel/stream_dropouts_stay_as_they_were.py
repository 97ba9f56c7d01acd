"""Under sequence parallelism every rank draws the same mask.

law: tensor_parallel.randomness.dropout_is_shared_where_the_stream_is_whole
says: mask
"""
# region solution cut_the_stream
    whole = [module for module in gpt.modules() if isinstance(module, nn.LayerNorm | nn.RMSNorm)]
    if gpt.position_embedding is not None:
        gpt.position_embedding.register_forward_pre_hook(lambda _, inputs: (own_part(inputs[0], 0, group),))
        whole.append(gpt.position_embedding)
    # These weights are whole on every rank and see some tokens only. The hook runs once per backward, before the sum reaches grad.
    for parameter in nn.ModuleList(whole).parameters():
        parameter.register_hook(lambda gradient: summed(gradient, group))
    # Other tokens on each rank: with one mask for all, tokens T/N apart would lose the same channels.
    for module in [gpt, *gpt.blocks]:
        module.dropout = nn.Dropout(module.dropout.p).train(module.dropout.training)
# endregion
