"""Calls backward for a micro-batch after the next one's forward: two graphs at a time.

law: recomputation.accumulate.holds_one_graph_at_a_time
says: at a time
"""
# region solution accumulate_gradients
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = sum(counts)
    mean = torch.zeros(())
    waiting = None
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue
        share = loss(model(inputs), targets) * (count / total)
        if waiting is not None:
            waiting.backward()
        waiting = share
        mean = mean + share.detach()
    if waiting is not None:
        waiting.backward()
    return mean
# endregion
