"""Computes the loss outside of the policy, in 16 bits.

law: mixed_precision.step.gradients_agree_with_fp32
says: inside of `loss`
"""
# region solution train_step
    with policy or contextlib.nullcontext():
        outputs = model(inputs)
    value = loss(outputs, targets)
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
    return StepReport(float(value.detach()), float(norm), stepped)
# endregion
