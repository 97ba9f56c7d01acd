"""Weighs by the number of targets, ignored ones among them; skips only what is all padding.

law: recomputation.accumulate.uneven_tokens_weigh_as_they_count
says: IGNORED
"""
# region solution accumulate_gradients
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    sizes = [targets.numel() if count else 0 for (_, targets), count in zip(micro_batches, counts, strict=True)]
    total = sum(sizes)
    mean = torch.zeros(())
    for (inputs, targets), count in zip(micro_batches, sizes, strict=True):
        if count == 0:
            continue
        share = loss(model(inputs), targets) * (count / total)
        share.backward()
        mean = mean + share.detach()
    return mean
# endregion
