"""Returns as soon as the norm isn't finite, so that the scale is never lowered.

law: mixed_precision.step.a_skipped_step_changes_nothing
says: scale
"""
# region solution train_step
    with policy if policy is not None else contextlib.nullcontext():
        value = loss(model(inputs), targets)
    (value if scaler is None else scaler.scale(value)).backward()
    if scaler is not None:
        scaler.unscale_(optimizer)
    elif hasattr(optimizer, "collect_gradients"):
        optimizer.collect_gradients()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    norm = float(nn.utils.clip_grad_norm_(parameters, max_norm))
    if scaler is not None and not math.isfinite(norm):
        optimizer.zero_grad()
        scaler.is_unscaled = scaler.found_non_finite = False
        return StepReport(value.item(), norm, False)
    stepped = True
    if scaler is None:
        optimizer.step()
    else:
        stepped = scaler.step(optimizer)
        scaler.update()
    optimizer.zero_grad()
    return StepReport(value.item(), norm, stepped)
# endregion
