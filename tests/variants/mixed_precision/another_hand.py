"""Another hand: MasterWeights keeps a list of pairs, names are stripped of underscores, the format is computed in float64."""
# region solution round_to
    wide = x.detach().double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    spacing = torch.pow(torch.tensor(2.0, dtype=torch.float64), (exponent - mantissa_bits).double())
    rounded = (wide / spacing).round() * spacing
    largest = (2 - 2.0**-mantissa_bits) * 2.0 ** (2 ** (exponent_bits - 1) - 1)
    rounded = torch.where(rounded.abs() > largest, torch.full_like(wide, math.inf).copysign(wide), rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)
# endregion
# region solution precision_of
    products = "linear matmul mm bmm mv addmm baddbmm einsum conv1d conv2d conv3d scaled_dot_product_attention"
    sensitive = (
        "softmax log_softmax logsumexp exp log pow rsqrt sum mean prod cumsum var std norm layer_norm rms_norm group_norm"
        " cross_entropy nll_loss mse_loss binary_cross_entropy_with_logits"
    )
    name = operation
    if name.startswith("__"):
        name = name.strip("_")
        name = {"rmatmul": "matmul", "rpow": "pow"}.get(name, name)
    if name in products.split():
        return "narrow"
    return "wide" if name in sensitive.split() else "as_given"
# endregion
# region solution cast
        precision = precision_of(func.__name__)
        if precision == "as_given":
            return func(*args, **(kwargs or {}))
        target = self.dtype if precision == "narrow" else torch.float32

        def cast(value: Any) -> Any:
            if isinstance(value, Tensor):
                return value.to(target) if value.dtype in (torch.float32, torch.float16, torch.bfloat16) else value
            if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
                return type(value)(cast(item) for item in value)
            return value

        return func(*(cast(value) for value in args), **{name: cast(value) for name, value in (kwargs or {}).items()})
# endregion
# region solution masters_init
        groups = list(params)
        if not groups or not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        self.pairs: list[tuple[Tensor, Tensor]] = []
        groups_of_masters = []
        for group in groups:
            members = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
            masters = []
            for parameter in members:
                if parameter.requires_grad:
                    master = parameter.detach().clone().float().requires_grad_()
                    self.pairs.append((parameter, master))
                    masters.append(master)
            groups_of_masters.append({**group, "params": masters})
        self.optimizer = make_optimizer(groups_of_masters)
        self.is_collected = False
# endregion
# region solution collect_gradients
        if self.is_collected:
            return
        self.is_collected = True
        for parameter, master in self.pairs:
            master.grad = None if parameter.grad is None else parameter.grad.detach().to(torch.float32, copy=True)
# endregion
# region solution masters_step
        self.collect_gradients()
        self.optimizer.step()
        for parameter, master in self.pairs:
            if master.grad is not None:
                parameter.copy_(master)
            master.grad = None
        self.is_collected = False
# endregion
# region solution masters_zero_grad
        for parameter, master in self.pairs:
            parameter.grad = master.grad = None
        self.is_collected = False
# endregion
# region solution masters_state_dict
        masters = [master.detach().clone() for _, master in self.pairs]
        return {"masters": masters, "optimizer": copy.deepcopy(self.optimizer.state_dict())}
# endregion
# region solution masters_load_state_dict
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        for (parameter, master), saved in zip(self.pairs, state["masters"], strict=True):
            master.copy_(saved)
            parameter.copy_(master)
        self.zero_grad()
# endregion
# region solution scale
        return loss * self.current_scale
# endregion
# region solution unscale
        if self.is_unscaled:
            raise RuntimeError("unscale_ was called already in this step: call update() first")
        if hasattr(optimizer, "collect_gradients"):
            optimizer.collect_gradients()
        self.is_unscaled = True
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    if not parameter.grad.isfinite().all():
                        self.found_non_finite = True
                    parameter.grad.mul_(1.0 / self.current_scale)
# endregion
# region solution scaler_step
        if not self.is_unscaled:
            self.unscale_(optimizer)
        if self.found_non_finite:
            return False
        optimizer.step()
        return True
# endregion
# region solution update
        if self.found_non_finite:
            self.current_scale *= self.backoff_factor
            self.num_good_steps = 0
        else:
            self.num_good_steps += 1
            if self.num_good_steps == self.growth_interval:
                self.current_scale *= self.growth_factor
                self.num_good_steps = 0
        self.is_unscaled = self.found_non_finite = False
# endregion
# region solution scaler_state_dict
        return {
            "scale": self.current_scale,
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "num_good_steps": self.num_good_steps,
        }
# endregion
# region solution scaler_load_state_dict
        self.current_scale = state["scale"]
        self.growth_factor = state["growth_factor"]
        self.backoff_factor = state["backoff_factor"]
        self.growth_interval = state["growth_interval"]
        self.num_good_steps = state["num_good_steps"]
        self.is_unscaled = self.found_non_finite = False
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
