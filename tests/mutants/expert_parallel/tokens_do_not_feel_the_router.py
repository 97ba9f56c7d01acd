"""Detaches the tokens before the router: x gets no gradient through the weights and the loss.

law: expert_parallel.layer.gradients_equal_the_dense_mixture
says: by the experts alone
"""
        # region solution moe_forward
        x_TC = x.reshape(-1, x.shape[-1])
        logits = self.router(x_TC.detach().to(self.router.weight.dtype))
        routing = route(logits, self.top_k, self.capacity_factor, renormalize=self.renormalize)
        dispatched = dispatch(x_TC, routing, self.group)
        parts = dispatched.rows.split(dispatched.num_rows)
        outputs = torch.cat([expert(rows) for expert, rows in zip(self.experts, parts, strict=True)])
        return combine(outputs, dispatched).view(x.shape), load_balancing_loss(routing)
        # endregion
