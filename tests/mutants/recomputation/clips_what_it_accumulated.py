"""Clips the gradients' norm to 1 at the end, as training loops do, though nobody asked.

law: recomputation.accumulate.learning_curve_equals_the_larger_batch
says: step
"""
# region solution accumulate_gradients
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = sum(counts)
    mean = torch.zeros(())
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue
        share = loss(model(inputs), targets) * (count / total)
        share.backward()
        mean = mean + share.detach()
    if total and isinstance(model, torch.nn.Module):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    return mean
# endregion
