"""Takes every negative target for padding, as if all targets were classes.

law: recomputation.accumulate.uneven_tokens_weigh_as_they_count
says: differ
"""
# region solution accumulate_gradients
    counts = [int((targets >= 0).sum()) for _, targets in micro_batches]
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
