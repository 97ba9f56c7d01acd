"""Gathers keys and values of all ranks before it computes.

law: context_parallel.ring.keys_and_values_go_round_once
says: all_gather
"""
# region solution ring_forward
rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
o = torch.zeros_like(q, dtype=wide(q).dtype)  # merged so far: nothing seen yet
lse = torch.full(q.shape[:-1], -math.inf, dtype=o.dtype, device=q.device)
everybody = []
for x in (k, v):
    parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(num_ranks)]
    dist.all_gather(parts, x.contiguous(), group=group)
    everybody.append(parts)
for step in range(num_ranks):
    source = (rank - step) % num_ranks
    held = [parts[source] for parts in everybody]
    for queries, keys, masked in visible_blocks(rank, source, k.shape[2], causal=causal, zigzag=zigzag):
        block = kernel.forward(q[:, :, queries], *(x[:, :, keys] for x in held), masked)
        o[:, :, queries], lse[:, :, queries] = merge_attention(o[:, :, queries], lse[:, :, queries], *block)
o = o.to(q.dtype)
ctx.save_for_backward(q, k, v, o, lse)  # this rank's own: the others' come round again
return o
# endregion
