"""Adds up the weighted losses and calls backward once.

law: recomputation.accumulate.holds_one_graph_at_a_time
says: at a time
"""
# region solution accumulate_gradients
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = sum(counts)
    mean = torch.zeros(())
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue
        share = loss(model(inputs), targets) * (count / total)
        mean = mean + share
    if total:
        mean.backward()
    return mean.detach()
# endregion
