"""Counts in a view, which targets that aren't contiguous don't have.

law: recomputation.accumulate.uneven_tokens_weigh_as_they_count
says: view
"""
# region solution accumulate_gradients
    counts = [int((targets.view(-1) != IGNORED).sum()) for _, targets in micro_batches]
    total = max(1, sum(counts))
    mean = torch.zeros(())
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue
        share = loss(model(inputs), targets) * (count / total)
        share.backward()
        mean = mean + share.detach()
    return mean
# endregion
