"""Computes the loss after the policy was left, in 16 bits.

law: mixed_precision.step.gradients_agree_with_fp32
says: gradient
"""
# region solution train_step
    with policy if policy is not None else contextlib.nullcontext():
        outputs = model(inputs)
    value = loss(outputs, targets)
    (value if scaler is None else scaler.scale(value)).backward()
    if scaler is not None:
        scaler.unscale_(optimizer)
    elif hasattr(optimizer, "collect_gradients"):
        optimizer.collect_gradients()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    norm = float(nn.utils.clip_grad_norm_(parameters, max_norm))
    stepped = True
    if scaler is None:
        optimizer.step()
    else:
        stepped = scaler.step(optimizer)
        scaler.update()
    optimizer.zero_grad()
    return StepReport(value.item(), norm, stepped)
# endregion
