"""Gathers the stream at the end of each block and cuts it at the beginning of the next: blocks return all tokens.

law: tensor_parallel.sequence.stream_is_cut
says: tokens
"""
# region solution cut_the_stream
    whole = [module for module in gpt.modules() if isinstance(module, nn.LayerNorm | nn.RMSNorm)]
    if gpt.position_embedding is not None:
        gpt.position_embedding.register_forward_pre_hook(lambda _, inputs: (own_part(inputs[0], 0, group),))
        whole.append(gpt.position_embedding)
    for parameter in nn.ModuleList(whole).parameters():
        parameter.register_hook(lambda gradient: summed(gradient, group))
    for module in [gpt, *gpt.blocks]:
        module.dropout = RankDropout(module.dropout.p).train(module.dropout.training)
        module.dropout.random = random
    def join(_, inputs, output):
        return gather_from_tensor_parallel(output.transpose(1, 2).contiguous(), group).transpose(1, 2)

    def cut_again(_, inputs):
        return (scatter_to_tensor_parallel(inputs[0].transpose(1, 2), group).transpose(1, 2), *inputs[1:])

    for number, block in enumerate(gpt.blocks):
        block.register_forward_hook(join)
        if number:
            block.register_forward_pre_hook(cut_again)
    gpt.norm.register_forward_pre_hook(cut_again)
# endregion
