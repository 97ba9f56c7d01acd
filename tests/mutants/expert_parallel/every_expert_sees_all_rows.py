"""Runs every expert on all rows that have arrived, and takes its part of the outputs.

law: expert_parallel.layer.holds_its_own_experts
says: rows
"""
        # region solution moe_forward
        x_TC = x.reshape(-1, x.shape[-1])
        logits = self.router(x_TC.to(self.router.weight.dtype))
        routing = route(logits, self.top_k, self.capacity_factor, renormalize=self.renormalize)
        dispatched = dispatch(x_TC, routing, self.group)
        cuts = [sum(dispatched.num_rows[:i]) for i in range(len(dispatched.num_rows) + 1)]
        outputs = torch.cat([expert(dispatched.rows)[cuts[i] : cuts[i + 1]] for i, expert in enumerate(self.experts)])
        return combine(outputs, dispatched).view(x.shape), load_balancing_loss(routing)
        # endregion
