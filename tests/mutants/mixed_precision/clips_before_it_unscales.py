"""Clips the scaled gradients; only the reported norm is divided by the scale.

law: mixed_precision.step.clips_unscaled_gradients
says: scaled still
"""
# region solution train_step
    with policy if policy is not None else contextlib.nullcontext():
        value = loss(model(inputs), targets)
    (value if scaler is None else scaler.scale(value)).backward()
    if hasattr(optimizer, "collect_gradients"):
        optimizer.collect_gradients()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    norm = float(nn.utils.clip_grad_norm_(parameters, max_norm))
    if scaler is not None:
        norm /= scaler.get_scale()
        scaler.unscale_(optimizer)
    stepped = True
    if scaler is None:
        optimizer.step()
    else:
        stepped = scaler.step(optimizer)
        scaler.update()
    optimizer.zero_grad()
    return StepReport(value.item(), norm, stepped)
# endregion
