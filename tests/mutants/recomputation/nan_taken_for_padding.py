"""Leaves out every micro-batch whose loss is NaN, and so hides a run that diverged.

law: recomputation.accumulate.micro_batches_without_tokens_add_nothing
says: diverged
"""
# region solution accumulate_gradients
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = max(1, sum(counts))
    mean = torch.zeros(())
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        share = loss(model(inputs), targets) * (count / total)
        if torch.isnan(share):
            continue
        share.backward()
        mean = mean + share.detach()
    return mean
# endregion
