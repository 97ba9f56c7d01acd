"""Sums the stored grad after each backward: that of the backward before is added up again.

law: tensor_parallel.sequence.whole_weights_collect_their_gradients
says: gradient
"""
# region solution cut_the_stream
    whole = [module for module in gpt.modules() if isinstance(module, nn.LayerNorm | nn.RMSNorm)]
    if gpt.position_embedding is not None:
        gpt.position_embedding.register_forward_pre_hook(lambda _, inputs: (own_part(inputs[0], 0, group),))
        whole.append(gpt.position_embedding)
    def add_up(parameter: nn.Parameter) -> None:
        parameter.grad.copy_(summed(parameter.grad, group))

    for parameter in nn.ModuleList(whole).parameters():
        parameter.register_post_accumulate_grad_hook(add_up)
    for module in [gpt, *gpt.blocks]:
        module.dropout = RankDropout(module.dropout.p).train(module.dropout.training)
        module.dropout.random = random
# endregion
