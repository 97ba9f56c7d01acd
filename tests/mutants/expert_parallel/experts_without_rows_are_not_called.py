"""Calls only experts that have rows: the others' parameters have no gradient.

law: expert_parallel.layer.empty_experts_do_not_hang
says: gradient
"""
        # region solution moe_forward
        x_TC = x.reshape(-1, x.shape[-1])
        logits = self.router(x_TC.to(self.router.weight.dtype))
        routing = route(logits, self.top_k, self.capacity_factor, renormalize=self.renormalize)
        dispatched = dispatch(x_TC, routing, self.group)
        parts = dispatched.rows.split(dispatched.num_rows)
        done = [expert(rows) for expert, rows in zip(self.experts, parts, strict=True) if len(rows)]
        outputs = torch.cat(done) if done else dispatched.rows
        return combine(outputs, dispatched).view(x.shape), load_balancing_loss(routing)
        # endregion
