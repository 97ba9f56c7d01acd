"""Sums the gradients of whole weights by f in front of them instead of a hook behind them.
"""
# region solution cut_the_stream

    def normed(module):
        def forward(x):
            weight = copy_to_tensor_parallel(module.weight, group)
            if isinstance(module, nn.RMSNorm):
                return F.rms_norm(x, module.normalized_shape, weight, module.eps)
            bias = None if module.bias is None else copy_to_tensor_parallel(module.bias, group)
            return F.layer_norm(x, module.normalized_shape, weight, bias, module.eps)

        return forward

    for module in gpt.modules():
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            module.forward = normed(module)
    if gpt.position_embedding is not None:
        table = gpt.position_embedding
        table.forward = lambda positions: F.embedding(own_part(positions, 0, group), copy_to_tensor_parallel(table.weight, group))
    for module in [gpt, *gpt.blocks]:
        module.dropout = RankDropout(module.dropout.p).train(module.dropout.training)
        module.dropout.random = random
# endregion
