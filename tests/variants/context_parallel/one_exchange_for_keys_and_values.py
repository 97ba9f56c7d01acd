"""Ulysses sends k and v in one message, and autograd sees attention by heads as one function."""
    # region solution ulysses_attention
    num_ranks = dist.get_world_size(group)
    for what, x in (("queries", q), ("keys and values", k)):
        if x.shape[1] % num_ranks != 0:
            raise ValueError(f"{num_ranks} ranks can't have equal shares of {x.shape[1]} heads of {what}")

    def to_heads(*tensors: torch.Tensor) -> list[torch.Tensor]:
        # The parts of all tensors for one rank lie one after the other in one message.
        parts = [[x.chunk(num_ranks, 1)[to] for x in tensors] for to in range(num_ranks)]
        leaving = torch.stack([torch.cat([x.reshape(-1) for x in part]) for part in parts])
        arriving = torch.empty_like(leaving)
        dist.all_to_all_single(arriving, leaving, group=group)
        arrived = [message.split([x.numel() for x in parts[0]]) for message in arriving]
        return [torch.cat([pieces[i].view(parts[0][i].shape) for pieces in arrived], 2) for i in range(len(tensors))]

    def to_tokens(*tensors: torch.Tensor) -> list[torch.Tensor]:
        result = []
        for x in tensors:
            leaving = torch.cat([part.flatten() for part in x.chunk(num_ranks, 2)])
            arriving = torch.empty_like(leaving)
            dist.all_to_all_single(arriving, leaving, group=group)
            batch, heads, num_tokens, *rest = x.shape
            arrived = arriving.view(num_ranks, batch, heads, num_tokens // num_ranks, *rest)
            result.append(arrived.transpose(0, 1).flatten(1, 2))
        return result

    class ByHeads(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            (q,), (k, v) = to_heads(q), to_heads(k, v)
            o, lse = kernel.forward(q, k, v, causal)
            o = o.to(q.dtype)
            ctx.save_for_backward(q, k, v, o, lse)
            return to_tokens(o)[0]

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, ...]:
            q, k, v, o, lse = ctx.saved_tensors
            gradients = kernel.backward(*to_heads(gradient), q, k, v, o, lse, causal)
            return tuple(to_tokens(*(g.to(x.dtype) for g, x in zip(gradients, (q, k, v), strict=True))))

    return ByHeads.apply(q, k, v)
    # endregion
