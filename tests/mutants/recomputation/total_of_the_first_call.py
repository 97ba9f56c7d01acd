"""Counts the targets of the first batch it sees and divides every later batch by that count.

law: recomputation.accumulate.learning_curve_equals_the_larger_batch
says: step
"""
# region solution accumulate_gradients
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = accumulate_gradients.__dict__.setdefault("total", sum(counts)) if sum(counts) else 0
    mean = torch.zeros(())
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue
        share = loss(model(inputs), targets) * (count / total)
        share.backward()
        mean = mean + share.detach()
    return mean
# endregion
