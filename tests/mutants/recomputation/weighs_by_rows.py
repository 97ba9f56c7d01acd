"""Weighs by the number of sequences that have a counted target, not by the targets.

law: recomputation.accumulate.uneven_tokens_weigh_as_they_count
says: counted
"""
# region solution accumulate_gradients
    counts = [len(targets) if bool((targets != IGNORED).any()) else 0 for _, targets in micro_batches]
    total = sum(counts)
    mean = torch.zeros(())
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue
        share = loss(model(inputs), targets) * (count / total)
        share.backward()
        mean = mean + share.detach()
    return mean
# endregion
