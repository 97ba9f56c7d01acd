"""Keeps every block that came by, so that backward need not send it again.

law: context_parallel.ring.holds_few_blocks
says: backward
"""
        # region solution ring_forward
        rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
        o = torch.zeros_like(q, dtype=wide(q).dtype)  # merged so far: nothing seen yet
        lse = torch.full(q.shape[:-1], -math.inf, dtype=o.dtype, device=q.device)
        held, seen = [k, v], []
        for step in range(num_ranks):
            source = (rank - step) % num_ranks
            seen.append(held)
            # First the network, then the arithmetic: the next block travels while this one is computed.
            passing = start_passing(held, group) if step < num_ranks - 1 else None
            for queries, keys, masked in visible_blocks(rank, source, k.shape[2], causal=causal, zigzag=zigzag):
                block = kernel.forward(q[:, :, queries], *(x[:, :, keys] for x in held), masked)
                o[:, :, queries], lse[:, :, queries] = merge_attention(o[:, :, queries], lse[:, :, queries], *block)
            if passing is not None:
                held = passing.wait()
        o = o.to(q.dtype)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.seen = seen
        return o
        # endregion
        # region solution ring_backward
        rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
        dq, own = torch.zeros_like(wide(q)), [torch.zeros_like(wide(k)), torch.zeros_like(wide(v))]
        sums = None
        for step in range(num_ranks):
            source = (rank - step) % num_ranks
            held = ctx.seen[step]
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
        if sums is not None:
            own = [a + b for a, b in zip(own, sums.wait(), strict=True)]
        return dq.to(q.dtype), own[0].to(k.dtype), own[1].to(v.dtype), None, None, None, None
        # endregion
