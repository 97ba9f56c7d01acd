"""Keeps the handles of what it receives and never waits for what it sends.

law: context_parallel.ring.keys_and_values_go_round_once
says: wait
"""
    # region solution start_passing
    rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
    leaving = [tensor.contiguous() for tensor in tensors]
    arriving = [torch.empty_like(tensor) for tensor in leaving]
    # Sends and receives in one batch: no rank waits for its turn, and NCCL needs it so.
    sends = [dist.P2POp(dist.isend, tensor, group=group, group_peer=(rank + 1) % num_ranks) for tensor in leaving]
    receives = [dist.P2POp(dist.irecv, tensor, group=group, group_peer=(rank - 1) % num_ranks) for tensor in arriving]
    works = dist.batch_isend_irecv(sends + receives)
    return Passing(arriving, leaving, works[len(sends) :])
    # endregion
