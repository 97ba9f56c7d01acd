"""Divides 0 by 0 where no micro-batch has a counted target.

law: recomputation.accumulate.micro_batches_without_tokens_add_nothing
says: 0
"""
# region solution accumulate_gradients
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = sum(counts)
    mean = torch.zeros(())
    weights = torch.tensor(counts) / total
    if bool(weights.isnan().any()):
        return weights.sum()
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue
        share = loss(model(inputs), targets) * (count / total)
        share.backward()
        mean = mean + share.detach()
    return mean
# endregion
