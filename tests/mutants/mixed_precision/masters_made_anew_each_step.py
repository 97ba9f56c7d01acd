"""Makes the masters from the rounded weights before each step.

law: mixed_precision.masters.small_updates_add_up
says: rounds its update away
"""
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
        for parameter, master in self.pairs:
            master.copy_(parameter)
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
