"""Rounds down and then up again where the rest or the tie rule asks for it; casts by tree_map; the step clips by hand."""
# region solution round_to
    wide = x.detach().double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    spacing = torch.pow(torch.tensor(2.0, dtype=torch.float64), (exponent - mantissa_bits).double())
    quotient = wide / spacing
    below = quotient.floor()
    rest = quotient - below
    up = (rest > 0.5) | ((rest == 0.5) & (below % 2 == 1))
    rounded = ((below + up) * spacing).copysign(wide)
    largest = (2 - 2.0**-mantissa_bits) * 2.0 ** (2 ** (exponent_bits - 1) - 1)
    rounded = torch.where(rounded.abs() > largest, torch.full_like(wide, math.inf).copysign(wide), rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)
# endregion
# region solution cast
        from torch.utils._pytree import tree_map

        precision = precision_of(func.__name__)
        if precision != "as_given":
            target = {"narrow": self.dtype, "wide": torch.float32}[precision]
            castable = {torch.float32, torch.float16, torch.bfloat16}

            def cast(value: Any) -> Any:
                return value.to(target) if isinstance(value, Tensor) and value.dtype in castable else value

            args, kwargs = tree_map(cast, (args, kwargs or {}))
        return func(*args, **(kwargs or {}))
# endregion
# region solution train_step
    with policy if policy is not None else contextlib.nullcontext():
        value = loss(model(inputs), targets)
    (value if scaler is None else scaler.scale(value)).backward()
    if scaler is not None:
        scaler.unscale_(optimizer)
    elif hasattr(optimizer, "collect_gradients"):
        optimizer.collect_gradients()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = math.sqrt(sum(float(gradient.double().square().sum()) for gradient in gradients))
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / (norm + 1e-6))
    stepped = True
    if scaler is None:
        optimizer.step()
    else:
        stepped = scaler.step(optimizer)
        scaler.update()
    optimizer.zero_grad()
    return StepReport(value.item(), norm, stepped)
# endregion
