"""Swaps two pairs of buffers, of which one are the caller's own keys and values.

law: context_parallel.ring.calls_are_independent
says: written
"""
        # region solution ring_forward
        rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
        o = torch.zeros_like(q, dtype=wide(q).dtype)  # merged so far: nothing seen yet
        lse = torch.full(q.shape[:-1], -math.inf, dtype=o.dtype, device=q.device)
        held = [x.detach().contiguous() for x in (k, v)]
        spare = [torch.empty_like(x) for x in held]
        kept = [x.clone() for x in held]
        for step in range(num_ranks):
            source = (rank - step) % num_ranks
            # First the network, then the arithmetic: the next block travels while this one is computed.
            passing = None
            if step < num_ranks - 1:
                operations = [dist.P2POp(dist.isend, x, group=group, group_peer=(rank + 1) % num_ranks) for x in held]
                operations += [dist.P2POp(dist.irecv, x, group=group, group_peer=(rank - 1) % num_ranks) for x in spare]
                passing = Passing(spare, held, dist.batch_isend_irecv(operations))
            for queries, keys, masked in visible_blocks(rank, source, k.shape[2], causal=causal, zigzag=zigzag):
                block = kernel.forward(q[:, :, queries], *(x[:, :, keys] for x in held), masked)
                o[:, :, queries], lse[:, :, queries] = merge_attention(o[:, :, queries], lse[:, :, queries], *block)
            if passing is not None:
                held, spare = passing.wait(), held
        o = o.to(q.dtype)
        ctx.save_for_backward(q, *kept, o, lse)
        return o
        # endregion
