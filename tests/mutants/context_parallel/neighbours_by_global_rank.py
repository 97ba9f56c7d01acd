"""Counts its neighbours within the group and addresses them as ranks of the whole world.

law: context_parallel.ring.subgroups_use_their_own_ranks
says: group
"""
    # region solution start_passing
    rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
    leaving = [tensor.contiguous() for tensor in tensors]
    arriving = [torch.empty_like(tensor) for tensor in leaving]
    # Sends and receives in one batch: no rank waits for its turn, and NCCL needs it so.
    sends = [dist.P2POp(dist.isend, tensor, (rank + 1) % num_ranks, group) for tensor in leaving]
    receives = [dist.P2POp(dist.irecv, tensor, (rank - 1) % num_ranks, group) for tensor in arriving]
    return Passing(arriving, leaving, dist.batch_isend_irecv(sends + receives))
    # endregion
