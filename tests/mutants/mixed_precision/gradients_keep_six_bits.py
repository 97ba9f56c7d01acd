"""Keeps six bits of the gradients: coarser than bfloat16, finer than what is seen at a glance.

law: mixed_precision.step.gradients_agree_with_fp32
says: gradient
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
    for parameter in parameters:
        if policy is not None and parameter.grad is not None:
            parameter.grad.copy_(round_to(parameter.grad, exponent_bits=8, mantissa_bits=6))
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
