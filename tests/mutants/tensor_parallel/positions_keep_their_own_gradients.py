"""Leaves each rank with the gradients of its own positions.

law: tensor_parallel.sequence.whole_weights_collect_their_gradients
says: position
"""
# region solution cut_the_stream
    whole = [module for module in gpt.modules() if isinstance(module, nn.LayerNorm | nn.RMSNorm)]
    if gpt.position_embedding is not None:
        gpt.position_embedding.register_forward_pre_hook(lambda _, inputs: (own_part(inputs[0], 0, group),))
    for parameter in nn.ModuleList(whole).parameters():
        parameter.register_hook(lambda gradient: summed(gradient, group))
    for module in [gpt, *gpt.blocks]:
        module.dropout = RankDropout(module.dropout.p).train(module.dropout.training)
        module.dropout.random = random
# endregion
