"""Sums the stored gradient after each backward, old parts included.

law: tensor_parallel.sequence.whole_weights_collect_their_gradients
says: first backward's gradient
"""
# region solution cut_the_stream
    whole = [module for module in gpt.modules() if isinstance(module, nn.LayerNorm | nn.RMSNorm)]
    if gpt.position_embedding is not None:
        gpt.position_embedding.register_forward_pre_hook(lambda _, inputs: (own_part(inputs[0], 0, group),))
        whole.append(gpt.position_embedding)
    # These weights are whole on every rank and see some tokens only. The hook runs once per backward, before the sum reaches grad.
    for parameter in nn.ModuleList(whole).parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", summed(p.grad, group)))
    # Other tokens on each rank: with one mask for all, tokens T/N apart would lose the same channels.
    for module in [gpt, *gpt.blocks]:
        module.dropout = RankDropout(module.dropout.p).train(module.dropout.training)
        module.dropout.random = random
# endregion
