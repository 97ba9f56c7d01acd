"""Views x, whatever its strides, as rows.

law: expert_parallel.layer.equals_the_dense_mixture
says: view
"""
# region solution moe_forward
x_TC = x.view(-1, x.shape[-1])
# The router may be wider than the tokens: float32 beside bfloat16.
logits = self.router(x_TC.to(self.router.weight.dtype))
routing = route(logits, self.top_k, self.capacity_factor, renormalize=self.renormalize)
dispatched = dispatch(x_TC, routing, self.group)
# An expert without a row is run, too: so its parameters get gradients of zeros, and the rows stay in the graph, without which
# this rank would miss the all-to-all of backward, and the others would wait for it.
parts = dispatched.rows.split(dispatched.num_rows)
outputs = torch.cat([expert(rows) for expert, rows in zip(self.experts, parts, strict=True)])
return combine(outputs, dispatched).view(x.shape), load_balancing_loss(routing)
# endregion
