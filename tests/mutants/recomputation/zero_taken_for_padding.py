"""Takes target 0 for padding too, as if 0 were the padding token.

law: recomputation.accumulate.uneven_tokens_weigh_as_they_count
says: counted
"""
# region solution accumulate_gradients
    counts = [int((targets > 0).sum()) for _, targets in micro_batches]
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
