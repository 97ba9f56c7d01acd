"""Reports a norm of 0 where there is no limit to clip to.

law: mixed_precision.step.clips_unscaled_gradients
says: gradient_norm
"""
# region solution train_step
    with policy or contextlib.nullcontext():
        value = loss(model(inputs), targets)
    (scaler.scale(value) if scaler else value).backward()
    if scaler:
        scaler.unscale_(optimizer)
    else:
        getattr(optimizer, "collect_gradients", lambda: None)()
    norm = 0.0 if math.isinf(max_norm) else nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], max_norm)
    if scaler:
        stepped = scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
        stepped = True
    optimizer.zero_grad()
    return StepReport(float(value.detach()), float(norm), stepped)
# endregion
