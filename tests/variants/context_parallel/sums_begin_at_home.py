"""The sums start at home with their block, and make N hops."""
# region solution ring_backward
rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
dq = torch.zeros_like(wide(q))
held, sums = [k, v], None
for step in range(num_ranks):
    source = (rank - step) % num_ranks
    passing = start_passing(held, group) if step < num_ranks - 1 else None
    here = [torch.zeros_like(wide(k)), torch.zeros_like(wide(v))]
    for queries, keys, masked in visible_blocks(rank, source, k.shape[2], causal=causal, zigzag=zigzag):
        rows = (x[:, :, queries] for x in (o, lse))
        share = kernel.backward(gradient[:, :, queries], q[:, :, queries], *(x[:, :, keys] for x in held), *rows, masked)
        dq[:, :, queries] += share[0]
        for total, part in zip(here, share[1:], strict=True):
            total[:, :, keys] += part
    if sums is not None:
        for total, part in zip(here, sums.wait(), strict=True):
            total += part
    if num_ranks > 1:
        sums = start_passing(here, group)
    if passing is not None:
        held = passing.wait()
dk, dv = here if sums is None else sums.wait()
return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None, None, None
# endregion
