"""Rounds the router's weights to the tokens' dtype and computes logits in that.

law: expert_parallel.layer.equals_the_dense_mixture
says: output
"""
        # region solution moe_forward
        x_TC = x.reshape(-1, x.shape[-1])
        logits = F.linear(x_TC, self.router.weight.to(x.dtype), None if self.router.bias is None else self.router.bias.to(x.dtype))
        routing = route(logits, self.top_k, self.capacity_factor, renormalize=self.renormalize)
        dispatched = dispatch(x_TC, routing, self.group)
        parts = dispatched.rows.split(dispatched.num_rows)
        outputs = torch.cat([expert(rows) for expert, rows in zip(self.experts, parts, strict=True)])
        return combine(outputs, dispatched).view(x.shape), load_balancing_loss(routing)
        # endregion
