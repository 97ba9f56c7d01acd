"""Gives a micro-batch of padding the weight 0 and runs it: NaN times 0 is NaN.

law: recomputation.accumulate.micro_batches_without_tokens_add_nothing
says: NaN
"""
# region solution accumulate_gradients
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = sum(counts)
    mean = torch.zeros(())
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        share = loss(model(inputs), targets) * (count / max(total, 1))
        share.backward()
        mean = mean + share.detach()
    return mean
# endregion
