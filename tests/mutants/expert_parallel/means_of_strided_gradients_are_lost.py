"""Averages a contiguous copy of a gradient and leaves the gradient as it was.

law: expert_parallel.gradients.the_rest_is_averaged
says: own
"""
# region solution average_gradients
world_size = dist.get_world_size(group)
for parameter in parameters:
    if not parameter.requires_grad:
        continue
    gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.contiguous()
    # An expert has met the tokens of its whole expert-parallel group already: their sum is there, and other replicas have the rest.
    dist.all_reduce(gradient, group=replicas if getattr(parameter, "is_expert", False) else group)
    # One mean for all: the loss is divided by W whatever road its gradient has taken.
    gradient.div_(world_size)
    if parameter.grad is None:
        parameter.grad = gradient
# endregion
