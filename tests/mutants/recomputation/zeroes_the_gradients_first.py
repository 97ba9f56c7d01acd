"""Forgets the gradients that the parameters had before.

law: recomputation.accumulate.adds_to_what_is_there
says: already
"""
# region solution accumulate_gradients
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = sum(counts)
    if isinstance(model, torch.nn.Module):
        model.zero_grad()
    mean = torch.zeros(())
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue
        share = loss(model(inputs), targets) * (count / total)
        share.backward()
        mean = mean + share.detach()
    return mean
# endregion
