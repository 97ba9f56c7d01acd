"""Takes the short way where there is one micro-batch: if all of it is padding, its mean is NaN.

law: recomputation.accumulate.micro_batches_without_tokens_add_nothing
says: NaN
"""
# region solution accumulate_gradients
    if len(micro_batches) == 1:
        inputs, targets = micro_batches[0]
        value = loss(model(inputs), targets)
        value.backward()
        return value.detach()
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    mean = torch.zeros(())
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count:
            share = loss(model(inputs), targets) * (count / sum(counts))
            share.backward()
            mean = mean.to(share) + share.detach()
    return mean
# endregion
