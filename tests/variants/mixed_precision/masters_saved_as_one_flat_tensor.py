"""Saves all masters as one flat tensor; the scaler multiplies by a tensor, counts non-finite numbers and divides all gradients at once."""
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
        flat = torch.cat([master.detach().flatten() for _, master in self.pairs])
        return {"flat": flat, "optimizer": copy.deepcopy(self.optimizer.state_dict())}
# endregion
# region solution masters_load_state_dict
        self.zero_grad()
        pieces = state["flat"].split([master.numel() for _, master in self.pairs])
        for (parameter, master), piece in zip(self.pairs, pieces, strict=True):
            master.copy_(piece.view_as(master))
            parameter.copy_(master)
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
# endregion
# region solution unscale
        if self.is_unscaled:
            raise RuntimeError("unscale_ was called already in this step: call update() first")
        if hasattr(optimizer, "collect_gradients"):
            optimizer.collect_gradients()
        self.is_unscaled = True
        gradients = []
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    gradients.append(parameter.grad)
        if gradients:
            bad = sum(int((~gradient.isfinite()).sum()) for gradient in gradients)
            self.found_non_finite = bad > 0
            torch._foreach_div_(gradients, self.current_scale)
# endregion
# region solution scale
        return torch.mul(loss, loss.new_tensor(self.current_scale, dtype=torch.float32))
# endregion
