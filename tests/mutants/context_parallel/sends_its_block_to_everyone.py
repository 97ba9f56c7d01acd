"""Sends the own block straight to every other rank instead of round the ring.

law: context_parallel.ring.keys_and_values_go_round_once
says: neighbour
"""
        # region solution ring_forward
        rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
        o = torch.zeros_like(q, dtype=wide(q).dtype)  # merged so far: nothing seen yet
        lse = torch.full(q.shape[:-1], -math.inf, dtype=o.dtype, device=q.device)
        own, held = [x.contiguous() for x in (k, v)], [k, v]
        for step in range(num_ranks):
            source = (rank - step) % num_ranks
            # First the network, then the arithmetic: the next block travels while this one is computed.
            passing = None
            if step < num_ranks - 1:
                arriving = [torch.empty_like(x) for x in own]
                to, from_ = (rank + step + 1) % num_ranks, (rank - step - 1) % num_ranks
                operations = [dist.P2POp(dist.isend, x, group=group, group_peer=to) for x in own]
                operations += [dist.P2POp(dist.irecv, x, group=group, group_peer=from_) for x in arriving]
                passing = Passing(arriving, own, dist.batch_isend_irecv(operations))
            for queries, keys, masked in visible_blocks(rank, source, k.shape[2], causal=causal, zigzag=zigzag):
                block = kernel.forward(q[:, :, queries], *(x[:, :, keys] for x in held), masked)
                o[:, :, queries], lse[:, :, queries] = merge_attention(o[:, :, queries], lse[:, :, queries], *block)
            if passing is not None:
                held = passing.wait()
        o = o.to(q.dtype)
        ctx.save_for_backward(q, k, v, o, lse)  # this rank's own: the others' come round again
        return o
        # endregion
