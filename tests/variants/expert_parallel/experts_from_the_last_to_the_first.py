"""Runs the experts backwards into a list, keeps them by iteration, and flattens by other means."""
        # region solution moe_init
        num_ranks = dist.get_world_size(group)
        num_here, left_over = divmod(len(experts), num_ranks)
        if left_over:
            raise ValueError(f"{num_ranks} ranks, {len(experts)} experts: {left_over} would be left over")
        self.experts = nn.ModuleList()
        self.router = router
        first = dist.get_rank(group) * num_here
        for number, expert in enumerate(experts):
            if first <= number < first + num_here:
                self.experts.append(expert)
                for _, parameter in expert.named_parameters():
                    setattr(parameter, "is_expert", True)
        # endregion
        # region solution moe_forward
        tokens = x.contiguous().view(x.shape[:-1].numel(), x.shape[-1])
        routing = route(self.router(tokens.to(self.router.weight.dtype)), self.top_k, self.capacity_factor, renormalize=self.renormalize)
        loss = load_balancing_loss(routing)
        dispatched = dispatch(tokens, routing, self.group)
        end, done = len(dispatched.rows), []
        for expert, n in reversed(list(zip(self.experts, dispatched.num_rows, strict=True))):
            done.insert(0, expert(dispatched.rows[end - n : end]))
            end -= n
        return combine(torch.cat(done), dispatched).reshape(x.shape), loss
        # endregion
