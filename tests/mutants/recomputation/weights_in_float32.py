"""Makes the weights tensors of the default dtype, so that they are right to seven digits.

law: recomputation.accumulate.uneven_tokens_weigh_as_they_count
says: float32
"""
# region solution accumulate_gradients
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = sum(counts)
    mean = torch.zeros(())
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue
        share = loss(model(inputs), targets) * (torch.tensor(float(count)) / total)
        share.backward()
        mean = mean + share.detach()
    return mean
# endregion
