"""Blocks go to rank r-1, one message with both of them, and single sends and receives."""
# region solution start_passing
rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
leaving = [torch.stack(list(tensors)).contiguous()]
arriving = [torch.empty_like(leaving[0])]
ranks = dist.get_process_group_ranks(group if group is not None else dist.group.WORLD)
there, here = ranks[(rank - 1) % num_ranks], ranks[(rank + 1) % num_ranks]
works = [dist.irecv(arriving[0], here, group=group), dist.isend(leaving[0], there, group=group)]
return Passing(list(arriving[0].unbind()), leaving, works)
# endregion
# region solution ring_forward
rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
o = torch.zeros_like(q, dtype=wide(q).dtype)  # merged so far: nothing seen yet
lse = torch.full(q.shape[:-1], -math.inf, dtype=o.dtype, device=q.device)
held = [k, v]
for step in range(num_ranks):
    source = (rank + step) % num_ranks
    # First the network, then the arithmetic: the next block travels while this one is computed.
    passing = start_passing(held, group) if step < num_ranks - 1 else None
    for queries, keys, masked in visible_blocks(rank, source, k.shape[2], causal=causal, zigzag=zigzag):
        block = kernel.forward(q[:, :, queries], *(x[:, :, keys] for x in held), masked)
        o[:, :, queries], lse[:, :, queries] = merge_attention(o[:, :, queries], lse[:, :, queries], *block)
    if passing is not None:
        held = passing.wait()
o = o.to(q.dtype)
ctx.save_for_backward(q, k, v, o, lse)  # this rank's own: the others' come round again
return o
# endregion
# region solution ring_backward
rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
dq, own = torch.zeros_like(wide(q)), [torch.zeros_like(wide(k)), torch.zeros_like(wide(v))]
held, sums = [k, v], None
for step in range(num_ranks):
    source = (rank + step) % num_ranks
    passing = start_passing(held, group) if step < num_ranks - 1 else None
    here = own if step == 0 else [torch.zeros_like(x) for x in own]
    for queries, keys, masked in visible_blocks(rank, source, k.shape[2], causal=causal, zigzag=zigzag):
        # With o and lse of the whole softmax, the blocks' gradients just add up.
        rows = (x[:, :, queries] for x in (o, lse))
        share = kernel.backward(gradient[:, :, queries], q[:, :, queries], *(x[:, :, keys] for x in held), *rows, masked)
        dq[:, :, queries] += share[0]
        for total, part in zip(here, share[1:], strict=True):
            total[:, :, keys] += part
    if step > 0:
        # The sums for these keys follow them one step behind: they began at the rank after the keys' own, and the last rank
        # that sees the keys is the one before it. So they come home after N-1 hops, to where own has been waiting.
        if sums is not None:
            here = [a + b for a, b in zip(here, sums.wait(), strict=True)]
        sums = start_passing(here, group)
    if passing is not None:
        held = passing.wait()
if sums is not None:
    own = [a + b for a, b in zip(own, sums.wait(), strict=True)]
return dq.to(q.dtype), own[0].to(k.dtype), own[1].to(v.dtype), None, None, None, None
# endregion
