"""Lets all ranks meet at a barrier before the rows travel.

law: expert_parallel.layer.three_exchanges_and_two
says: barrier
"""
        # region solution moe_forward
        x_TC = x.reshape(-1, x.shape[-1])
        logits = self.router(x_TC.to(self.router.weight.dtype))
        routing = route(logits, self.top_k, self.capacity_factor, renormalize=self.renormalize)
        dist.barrier(group=self.group)
        dispatched = dispatch(x_TC, routing, self.group)
        parts = dispatched.rows.split(dispatched.num_rows)
        outputs = torch.cat([expert(rows) for expert, rows in zip(self.experts, parts, strict=True)])
        return combine(outputs, dispatched).view(x.shape), load_balancing_loss(routing)
        # endregion
