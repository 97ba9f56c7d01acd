"""Hands the network tensors that aren't contiguous.

law: context_parallel.ring.calls_are_independent
says: contiguous
"""
# region solution start_passing
rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
leaving = list(tensors)
arriving = [torch.empty_like(tensor) for tensor in leaving]
# Sends and receives in one batch: no rank waits for its turn, and NCCL needs it so.
sends = [dist.P2POp(dist.isend, tensor, group=group, group_peer=(rank + 1) % num_ranks) for tensor in leaving]
receives = [dist.P2POp(dist.irecv, tensor, group=group, group_peer=(rank - 1) % num_ranks) for tensor in arriving]
return Passing(arriving, leaving, dist.batch_isend_irecv(sends + receives))
# endregion
