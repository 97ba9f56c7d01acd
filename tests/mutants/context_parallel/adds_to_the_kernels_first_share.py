"""Adds the later shares of dq to the first one, in whatever dtype the kernel returned that.

law: context_parallel.ring.half_precision_is_summed_in_float32
says: returns bfloat16
"""
# region solution ring_backward
rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
dq, own = torch.zeros_like(wide(q)), [torch.zeros_like(wide(k)), torch.zeros_like(wide(v))]
held, sums = [k, v], None
for step in range(num_ranks):
    source = (rank - step) % num_ranks
    passing = start_passing(held, group) if step < num_ranks - 1 else None
    here = own if step == 0 else [torch.zeros_like(x) for x in own]
    for queries, keys, masked in visible_blocks(rank, source, k.shape[2], causal=causal, zigzag=zigzag):
        # With o and lse of the whole softmax, the blocks' gradients just add up.
        rows = (x[:, :, queries] for x in (o, lse))
        share = kernel.backward(gradient[:, :, queries], q[:, :, queries], *(x[:, :, keys] for x in held), *rows, masked)
        dq = share[0] if step == 0 else dq
        if step > 0:
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
