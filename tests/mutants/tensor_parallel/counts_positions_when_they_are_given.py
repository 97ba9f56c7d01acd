"""Adds the positions that tokens have by their places, whichever are given.

law: tensor_parallel.sequence.loss_and_gradients_equal_the_whole
says: given positions
"""
# region solution cut_the_stream
whole = [module for module in gpt.modules() if isinstance(module, nn.LayerNorm | nn.RMSNorm)]
if gpt.position_embedding is not None:
    gpt.position_embedding.register_forward_pre_hook(lambda _, inputs: (own_part(torch.arange(len(inputs[0])), 0, group),))
    whole.append(gpt.position_embedding)
# These weights are whole on every rank and see some tokens only. The hook runs once per backward, before the sum reaches grad.
for parameter in nn.ModuleList(whole).parameters():
    parameter.register_hook(lambda gradient: summed(gradient, group))
# Other tokens on each rank: with one mask for all, tokens T/N apart would lose the same channels.
for module in [gpt, *gpt.blocks]:
    module.dropout = RankDropout(module.dropout.p).train(module.dropout.training)
    module.dropout.random = random
# endregion
