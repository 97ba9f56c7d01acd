"""Runs micro-batches of padding and makes the NaN of their loss 0; their gradients may be NaN all the same.

law: recomputation.accumulate.micro_batches_without_tokens_add_nothing
says: NaN
"""
# region solution accumulate_gradients
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = sum(counts)
    mean = torch.zeros(())
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        share = torch.nan_to_num(loss(model(inputs), targets)) * (count / max(total, 1))
        share.backward()
        mean = mean + share.detach()
    return mean
# endregion
