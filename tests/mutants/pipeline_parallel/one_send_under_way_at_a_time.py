"""Waits for its last send before the next one: 1F1B and GPipe get through, but not a rank that runs ahead of its neighbour.

law: pipeline_parallel.executor.runs_any_valid_schedule
says: wait
"""
        # region solution send
        receiver = stage % self.num_ranks
        if receiver == self.rank:
            self.own_mail[kind, stage, micro_batch] = tensor
            return
        tensor = tensor.contiguous()
        for earlier, _ in self.sending:
            earlier.wait()
        work = dist.isend(tensor, group=self.groups[kind], group_dst=receiver, tag=int(kind == BACKWARD))
        self.sending = [(work, tensor)]
        # endregion
