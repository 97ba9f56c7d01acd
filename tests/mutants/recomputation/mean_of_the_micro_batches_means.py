"""Divides each micro-batch's mean by the number of micro-batches.

law: recomputation.accumulate.uneven_tokens_weigh_as_they_count
says: counted
"""
# region solution accumulate_gradients
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = sum(counts)
    mean = torch.zeros(())
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue
        share = loss(model(inputs), targets) / sum(n > 0 for n in counts)
        share.backward()
        mean = mean + share.detach()
    return mean
# endregion
