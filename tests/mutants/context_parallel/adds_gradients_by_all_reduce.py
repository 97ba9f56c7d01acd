"""Lays all ranks' gradients of keys and values side by side and adds them up by an all-reduce.

law: context_parallel.ring.gradients_come_home
says: all_reduce
"""
        # region solution ring_backward
        rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
        dq, own = torch.zeros_like(wide(q)), [torch.zeros_like(wide(k)), torch.zeros_like(wide(v))]
        held, everyones = [k, v], [own]
        for step in range(num_ranks):
            source = (rank - step) % num_ranks
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
                everyones.append(here)
            if passing is not None:
                held = passing.wait()
        if num_ranks > 1:
            # everyones[step] belongs to rank r - step.
            by_rank = [everyones[(rank - source) % num_ranks] for source in range(num_ranks)]
            wholes = [torch.stack(parts) for parts in zip(*by_rank, strict=True)]
            for whole in wholes:
                dist.all_reduce(whole, group=group)
            own = [whole[rank] for whole in wholes]
        return dq.to(q.dtype), own[0].to(k.dtype), own[1].to(v.dtype), None, None, None, None
        # endregion
