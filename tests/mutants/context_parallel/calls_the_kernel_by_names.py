"""Hands the kernel its mask by the name that DENSE has for it.

law: context_parallel.ring.output_equals_the_whole
says: keyword
"""
# region solution ring_forward
rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
o = torch.zeros_like(q, dtype=wide(q).dtype)  # merged so far: nothing seen yet
lse = torch.full(q.shape[:-1], -math.inf, dtype=o.dtype, device=q.device)
held = [k, v]
for step in range(num_ranks):
    source = (rank - step) % num_ranks
    # First the network, then the arithmetic: the next block travels while this one is computed.
    passing = start_passing(held, group) if step < num_ranks - 1 else None
    for queries, keys, masked in visible_blocks(rank, source, k.shape[2], causal=causal, zigzag=zigzag):
        block = kernel.forward(q[:, :, queries], *(x[:, :, keys] for x in held), causal=masked)
        o[:, :, queries], lse[:, :, queries] = merge_attention(o[:, :, queries], lse[:, :, queries], *block)
    if passing is not None:
        held = passing.wait()
o = o.to(q.dtype)
ctx.save_for_backward(q, k, v, o, lse)  # this rank's own: the others' come round again
return o
# endregion
