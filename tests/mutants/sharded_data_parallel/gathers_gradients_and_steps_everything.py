"""Gathers the mean gradients instead of the weights and runs the plain optimizer on the whole model, on every rank.

law: sharded_data_parallel.zero1.state_is_sharded
says: state
"""
        # region solution start_gathering
        mine = self.gradient
        self.flat = mine.new_empty(self.world_size * self.width)
        self.work = dist.all_gather_into_tensor(self.flat, mine, group=self.group, async_op=True)
        self.received = mine
        # endregion
        # region solution finish_gathering
        self.work.wait()
        for parameter, piece in zip(self.parameters, self.pieces(self.flat), strict=True):
            parameter.grad = piece.view(parameter.shape)
        self.work, self.flat, self.received = None, None, None
        # endregion
        # region solution add_param_group
        super().add_param_group(param_group)
        added = self.param_groups[-1]
        buckets = [Bucket(parameters, self.group) for parameters in cut_into_buckets(added["params"], self.bucket_bytes)]
        self.buckets += buckets
        settings = {name: value for name, value in added.items() if name != "params"}
        mine = settings | {"params": [p for p in added["params"] if p.requires_grad]}
        if self.local is None:
            self.local = self.optimizer_cls([mine], **self.defaults)
        else:
            self.local.add_param_group(mine)
        # What the optimizer has filled in itself (betas, momentum, ...) shows here too: schedulers look for it.
        for name, value in self.local.param_groups[-1].items():
            added.setdefault(name, value)
        # endregion
        # region solution sharded_step
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.reduce_gradients()
        for bucket in self.buckets:
            bucket.start_gathering()
            bucket.finish_gathering()
            bucket.gradient = None
        for seen, local in zip(self.param_groups, self.local.param_groups, strict=True):
            local.update({name: value for name, value in seen.items() if name != "params"})
        self.local.step()
        return loss
        # endregion
