"""Skips a step that is not finite although there is no scaler.

law: mixed_precision.step.a_skipped_step_changes_nothing
says: no scaler
"""
# region solution train_step
    with policy or contextlib.nullcontext():
        value = loss(model(inputs), targets)
    (scaler.scale(value) if scaler else value).backward()
    if scaler:
        scaler.unscale_(optimizer)
    else:
        getattr(optimizer, "collect_gradients", lambda: None)()
    norm = nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], max_norm)
    if scaler:
        stepped = scaler.step(optimizer)
        scaler.update()
    else:
        stepped = math.isfinite(norm)
        if stepped:
            optimizer.step()
    optimizer.zero_grad()
    return StepReport(float(value.detach()), float(norm), stepped)
# endregion
