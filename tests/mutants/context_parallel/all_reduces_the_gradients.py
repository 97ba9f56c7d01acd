"""Sums the gradients of all keys on all ranks by an all-reduce.

law: context_parallel.ring.gradients_come_home
says: all_reduce
"""
# region solution ring_backward
rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
dq, own = torch.zeros_like(wide(q)), [torch.zeros_like(wide(k)), torch.zeros_like(wide(v))]
held, sums = [k, v], None
every = [torch.zeros((num_ranks, *x.shape), dtype=x.dtype, device=x.device) for x in own]
for step in range(num_ranks):
    source = (rank - step) % num_ranks
    passing = start_passing(held, group) if step < num_ranks - 1 else None
    here = [x[source] for x in every]
    for queries, keys, masked in visible_blocks(rank, source, k.shape[2], causal=causal, zigzag=zigzag):
        # With o and lse of the whole softmax, the blocks' gradients just add up.
        rows = (x[:, :, queries] for x in (o, lse))
        share = kernel.backward(gradient[:, :, queries], q[:, :, queries], *(x[:, :, keys] for x in held), *rows, masked)
        dq[:, :, queries] += share[0]
        for total, part in zip(here, share[1:], strict=True):
            total[:, :, keys] += part
    if passing is not None:
        held = passing.wait()
for x in every:
    dist.all_reduce(x, group=group)
own = [x[rank] for x in every]
return dq.to(q.dtype), own[0].to(k.dtype), own[1].to(v.dtype), None, None, None, None
# endregion
