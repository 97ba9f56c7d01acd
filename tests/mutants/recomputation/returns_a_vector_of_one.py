"""Adds the shares up in torch.zeros(1): what is returned is a vector.

law: recomputation.accumulate.returns_the_mean_loss
says: dimension
"""
# region solution accumulate_gradients
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = max(1, sum(counts))
    mean = torch.zeros(1)
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue
        share = loss(model(inputs), targets) * (count / total)
        share.backward()
        mean = mean + share.detach()
    return mean
# endregion
