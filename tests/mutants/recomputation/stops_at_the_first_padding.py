"""Takes a micro-batch without counted targets for the end of the batch.

law: recomputation.accumulate.micro_batches_without_tokens_add_nothing
says: counted
"""
# region solution accumulate_gradients
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = sum(counts)
    mean = torch.zeros(())
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            break
        share = loss(model(inputs), targets) * (count / total)
        share.backward()
        mean = mean + share.detach()
    return mean
# endregion
