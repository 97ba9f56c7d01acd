"""Clips matrices only, and leaves vectors out of the norm.

law: mixed_precision.step.clips_unscaled_gradients
says: norm
"""
# region solution train_step
    with policy or contextlib.nullcontext():
        value = loss(model(inputs), targets)
    (scaler.scale(value) if scaler else value).backward()
    if scaler:
        scaler.unscale_(optimizer)
    else:
        getattr(optimizer, "collect_gradients", lambda: None)()
    norm = nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"] if p.dim() > 1], max_norm)
    if scaler:
        stepped = scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
        stepped = True
    optimizer.zero_grad()
    return StepReport(float(value.detach()), float(norm), stepped)
# endregion
