"""Looks for LayerNorm only, so models with RMSNorm have other norms on each rank.

law: tensor_parallel.sequence.whole_weights_collect_their_gradients
says: norm
"""
# region solution cut_the_stream
    whole = [module for module in gpt.modules() if isinstance(module, nn.LayerNorm)]
    if gpt.position_embedding is not None:
        gpt.position_embedding.register_forward_pre_hook(lambda _, inputs: (own_part(inputs[0], 0, group),))
        whole.append(gpt.position_embedding)
    for parameter in nn.ModuleList(whole).parameters():
        parameter.register_hook(lambda gradient: summed(gradient, group))
    for module in [gpt, *gpt.blocks]:
        module.dropout = RankDropout(module.dropout.p).train(module.dropout.training)
        module.dropout.random = random
# endregion
