"""Sends the gradients of all parameters of a block around and throws away the sums of those that are cut.

law: tensor_parallel.sequence.same_bytes_as_all_reduces
says: bytes
"""
# region solution cut_the_stream
    whole = [module for module in gpt.modules() if isinstance(module, nn.LayerNorm | nn.RMSNorm)]
    if gpt.position_embedding is not None:
        gpt.position_embedding.register_forward_pre_hook(lambda _, inputs: (own_part(inputs[0], 0, group),))
        whole.append(gpt.position_embedding)
    for parameter in nn.ModuleList(whole).parameters():
        parameter.register_hook(lambda gradient: summed(gradient, group))
    def look(gradient: Tensor) -> None:
        summed(gradient, group)

    for parameter in gpt.blocks.parameters():
        if getattr(parameter, "is_cut", False):
            parameter.register_hook(look)
    for module in [gpt, *gpt.blocks]:
        module.dropout = RankDropout(module.dropout.p).train(module.dropout.training)
        module.dropout.random = random
# endregion
