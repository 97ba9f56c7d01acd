"""Returns the mean undetached: it requires grad and its graph has been run.

law: recomputation.accumulate.returns_the_mean_loss
says: detach
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
        mean = mean + share
    return mean
# endregion
