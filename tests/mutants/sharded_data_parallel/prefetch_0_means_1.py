"""Takes prefetch=0 for not given and gathers one unit ahead.

law: sharded_data_parallel.fsdp.one_unit_at_a_time
says: unit
"""
        # region solution fsdp_init
        self.group, self.compute_dtype = group, compute_dtype
        self.reshard_after_forward, self.prefetch = reshard_after_forward, prefetch or 1
        wrapped = [each for each in module.modules() if isinstance(each, wrap) and each is not module]
        parameters = dict(module.named_parameters())  # each once, under its first name
        name_of = {parameter: name for name, parameter in parameters.items()}
        self.order = list(parameters)
        owners: dict[str, Owners] = {name: [] for name in parameters}
        for each in module.modules():
            for attribute, parameter in each._parameters.items():
                if parameter is not None:
                    owners[name_of[parameter]].append((each, attribute))

        # A parameter that stands in several units must be whole in all of them: it goes to the root, which is gathered throughout.
        home = {inner: number for number, unit in enumerate(wrapped, 1) for inner in unit.modules()}
        members: list[dict[str, nn.Parameter]] = [{} for _ in range(len(wrapped) + 1)]
        for name, parameter in parameters.items():
            homes = {home.get(owner, 0) for owner, _ in owners[name]}
            members[homes.pop() if len(homes) == 1 else 0][name] = parameter
        self.units = [Unit(part, owners, group, compute_dtype, reduce_dtype) if part else None for part in members]

        # Hooks: on a unit's forward, on its outputs' gradients (registered by each forward), and on its weights' gradients.
        self.in_backward = False
        for number, inner in enumerate(wrapped, 1):
            inner.register_forward_pre_hook(lambda *_, number=number: self._before_forward(number))
            inner.register_forward_hook(lambda _, __, outputs, number=number: self._after_forward(number, outputs))
        for number, unit in enumerate(self.units):
            for whole in unit.wholes if unit else ():
                if whole.requires_grad:
                    whole.register_post_accumulate_grad_hook(lambda _, number=number: self._gradient_is_ready(number))
        # endregion
