"""Asks for the gradient of every parameter: one that is frozen or unused is an error.

law: recomputation.accumulate.adds_to_what_is_there
says: grad
"""
# region solution accumulate_gradients
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = max(1, sum(counts))
    mean = torch.zeros(())
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue
        share = loss(model(inputs), targets) * (count / total)
        if isinstance(model, torch.nn.Module):
            parameters = list(model.parameters())
            for parameter, gradient in zip(parameters, torch.autograd.grad(share, parameters), strict=True):
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        else:
            share.backward()
        mean = mean + share.detach()
    return mean
# endregion
