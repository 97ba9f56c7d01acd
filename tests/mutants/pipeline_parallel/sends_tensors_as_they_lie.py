"""Hands outputs and gradients to the network in whatever layout the stage left them.

law: pipeline_parallel.executor.each_boundary_is_crossed_once
says: contiguous
"""
        # region solution send
        receiver = stage % self.num_ranks
        if receiver == self.rank:
            self.own_mail[kind, stage, micro_batch] = tensor
            return
        work = dist.isend(tensor, group=self.groups[kind], group_dst=receiver, tag=int(kind == BACKWARD))
        self.sending = [(under_way, kept) for under_way, kept in self.sending if not under_way.is_completed()]
        self.sending.append((work, tensor))
        # endregion
