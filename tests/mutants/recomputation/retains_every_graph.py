"""Runs backward at once, but retains the graphs and holds on to them by the sum of the losses.

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
        share.backward(retain_graph=True)
        mean = mean + share
    return mean.detach()
# endregion
