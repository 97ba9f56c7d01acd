"""Has the right gradients and reports the sum of the micro-batches' means.

law: recomputation.accumulate.returns_the_mean_loss
says: mean
"""
# region solution accumulate_gradients
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = sum(counts)
    mean = torch.zeros(())
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue
        share = loss(model(inputs), targets) * (count / total)
        share.backward()
        mean = mean + share.detach() * (total / count)
    return mean
# endregion
