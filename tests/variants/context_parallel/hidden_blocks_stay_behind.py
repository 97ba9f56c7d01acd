"""Under a causal mask and without zigzag blocks of keys end at the last rank, since the first one sees none of those that came by."""
# region solution ring_forward
rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
o = torch.zeros_like(q, dtype=wide(q).dtype)
lse = torch.full(q.shape[:-1], -math.inf, dtype=o.dtype, device=q.device)
ends = causal and not zigzag  # nobody sees what comes after it, so nothing goes round from the last rank to the first
held = [k.contiguous(), v.contiguous()]
for step in range(rank + 1 if ends else num_ranks):
    works, arriving = [], [torch.empty_like(x) for x in held]
    if num_ranks > 1 and (rank < num_ranks - 1 if ends else step < num_ranks - 1):
        works += [dist.isend(x, group=group, group_dst=(rank + 1) % num_ranks) for x in held]
    if step < (rank if ends else num_ranks - 1):
        works += [dist.irecv(x, group=group, group_src=(rank - 1) % num_ranks) for x in arriving]
    for queries, keys, masked in visible_blocks(rank, (rank - step) % num_ranks, k.shape[2], causal=causal, zigzag=zigzag):
        block = kernel.forward(q[:, :, queries], *(x[:, :, keys] for x in held), masked)
        o[:, :, queries], lse[:, :, queries] = merge_attention(o[:, :, queries], lse[:, :, queries], *block)
    for work in works:
        work.wait()
    held = arriving
o = o.to(q.dtype)
ctx.save_for_backward(q, k, v, o, lse)
return o
# endregion
# region solution ring_backward
rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
ends = causal and not zigzag
held = [k.contiguous(), v.contiguous()]
dq, own = torch.zeros_like(wide(q)), [torch.zeros_like(wide(x)) for x in (k, v)]
sums = None
for step in range(num_ranks):
    works, arriving = [], [torch.empty_like(x) for x in held]
    if step < num_ranks - 1 and (not ends or step <= rank < num_ranks - 1):
        works += [dist.isend(x, group=group, group_dst=(rank + 1) % num_ranks) for x in held]
    if step < (rank if ends else num_ranks - 1):
        works += [dist.irecv(x, group=group, group_src=(rank - 1) % num_ranks) for x in arriving]
    here = own if step == 0 else [torch.zeros_like(x) for x in own]
    for queries, keys, masked in visible_blocks(rank, (rank - step) % num_ranks, k.shape[2], causal=causal, zigzag=zigzag):
        rows = (x[:, :, queries] for x in (o, lse))
        share = kernel.backward(gradient[:, :, queries], q[:, :, queries], *(x[:, :, keys] for x in held), *rows, masked)
        dq[:, :, queries] += share[0]
        for total, part in zip(here, share[1:], strict=True):
            total[:, :, keys] += part
    if step > 0:
        if sums is not None:
            here = [a + b for a, b in zip(here, sums.wait(), strict=True)]
        sums = start_passing(here, group)
    for work in works:
        work.wait()
    held = arriving
if sums is not None:
    own = [a + b for a, b in zip(own, sums.wait(), strict=True)]
return dq.to(q.dtype), own[0].to(k.dtype), own[1].to(v.dtype), None, None, None, None
# endregion
