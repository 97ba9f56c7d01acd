"""Reports loss and norm as the tensors that they are, with the graph.

law: mixed_precision.step.clips_unscaled_gradients
says: Tensor
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
        optimizer.step()
        stepped = True
    optimizer.zero_grad()
    return StepReport(value, norm, stepped)
# endregion
