"""Adds the micro-batches' gradients up on its own and puts the sum in the place of what was in grad.

law: recomputation.accumulate.adds_to_what_is_there
says: already
"""
# region solution accumulate_gradients
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = sum(counts)
    mean = torch.zeros(())
    parameters = [p for p in model.parameters() if p.requires_grad]
    sums = [torch.zeros_like(p) for p in parameters]
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue
        share = loss(model(inputs), targets) * (count / total)
        for so_far, gradient in zip(sums, torch.autograd.grad(share, parameters, allow_unused=True), strict=True):
            if gradient is not None:
                so_far += gradient
        mean = mean + share.detach()
    if total:
        for parameter, gradient in zip(parameters, sums, strict=True):
            parameter.grad = gradient
    return mean
# endregion
