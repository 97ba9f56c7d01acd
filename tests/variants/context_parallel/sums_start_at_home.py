"""Backward, the sums start at home with their block and take N hops; what travels together is one message."""
    # region solution start_passing
    rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
    leaving = [tensor.contiguous() for tensor in tensors]
    joined = torch.cat([tensor.reshape(-1) for tensor in leaving])
    arrived = torch.empty_like(joined)
    receive = dist.P2POp(dist.irecv, arrived, group=group, group_peer=(rank - 1) % num_ranks)
    send = dist.P2POp(dist.isend, joined, group=group, group_peer=(rank + 1) % num_ranks)
    works = dist.batch_isend_irecv([receive, send])
    pieces = arrived.split([tensor.numel() for tensor in leaving])
    return Passing([piece.view(tensor.shape) for piece, tensor in zip(pieces, leaving, strict=True)], [joined], works)
    # endregion
        # region solution ring_backward
        rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
        dq = torch.zeros_like(wide(q))
        held, sums = [k, v], None
        for step in range(num_ranks):
            passing = start_passing(held, group) if step < num_ranks - 1 else None
            here = [torch.zeros_like(wide(x)) for x in (k, v)]
            for queries, keys, masked in visible_blocks(rank, (rank - step) % num_ranks, k.shape[2], causal=causal, zigzag=zigzag):
                queried = [x[:, :, queries] for x in (gradient, q, o, lse)]
                share = kernel.backward(*queried[:2], *(x[:, :, keys] for x in held), *queried[2:], masked)
                dq[:, :, queries] += share[0]
                here[0][:, :, keys] += share[1]
                here[1][:, :, keys] += share[2]
            if sums is not None:
                here = [a + b for a, b in zip(sums.wait(), here, strict=True)]
            sums = start_passing(here, group) if num_ranks > 1 else None
            if passing is not None:
                held = passing.wait()
        dk, dv = here if sums is None else sums.wait()
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None, None, None
        # endregion
