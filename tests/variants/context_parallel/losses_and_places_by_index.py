"""A rank's places by their indices, the loss by log-sum-exp with both numbers in one message, gradients summed in one buffer."""
    # region solution shard_sequence
    rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
    num_tokens = tokens.shape[1]
    num_parts = 2 * num_ranks if zigzag else num_ranks
    size = -(-num_tokens // num_parts)
    parts = (rank, num_parts - 1 - rank) if zigzag else (rank,)
    places = torch.cat([torch.arange(part * size, (part + 1) * size, device=tokens.device) for part in parts])
    exists, has_next = places < num_tokens, places + 1 < num_tokens
    positions = torch.arange(num_tokens, device=tokens.device) if positions is None else positions
    # Places beyond the end look at the last token's, and what they see there is replaced.
    own = places.clamp(max=num_tokens - 1)
    following = (places + 1).clamp(max=num_tokens - 1)
    return Shard(
        tokens[:, own].masked_fill(~exists, 0),
        labels[:, following].masked_fill(~has_next, ignore_index),
        positions[own].masked_fill(~exists, 0),
    )
    # endregion
        # region solution sum_forward
        ctx.shape = x.shape
        total = x.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=group)
        return total
        # endregion
    # region solution sequence_cross_entropy
    rows, flat = wide(logits).flatten(0, -2), targets.flatten()
    counts = flat != ignore_index
    rows = rows.masked_fill(~counts[:, None], 0)
    picked = rows.gather(1, flat.where(counts, 0)[:, None])[:, 0]
    losses = torch.where(counts, rows.logsumexp(1) - picked, 0.0)
    # Sum and number in one message; a number of targets that float32 holds exactly.
    both = SumOverRanks.apply(torch.stack([losses.sum(), counts.sum().to(losses.dtype)]), group)
    return both[0] / both[1]
    # endregion
    # region solution sum_gradients
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in trained:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    for dtype in dict.fromkeys(parameter.dtype for parameter in trained):
        gradients = [parameter.grad for parameter in trained if parameter.dtype == dtype]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        dist.all_reduce(flat, group=group)
        for gradient, piece in zip(gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True):
            gradient.copy_(piece.view(gradient.shape))
    # endregion
