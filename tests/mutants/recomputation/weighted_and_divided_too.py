"""Weighs by tokens and divides by the number of micro-batches as well.

law: recomputation.accumulate.gradients_equal_the_whole_batch
says: micro-batches
"""
# region solution accumulate_gradients
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = sum(counts)
    mean = torch.zeros(())
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue
        share = loss(model(inputs), targets) * (count / total) / len(micro_batches)
        share.backward()
        mean = mean + share.detach()
    return mean
# endregion
