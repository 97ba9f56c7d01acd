"""Ignores gradient_group: tags keep the messages apart, but on NCCL they stand in each other's way.

law: pipeline_parallel.executor.each_boundary_is_crossed_once
says: gradient_group
"""
        # region solution send
        receiver = stage % self.num_ranks
        if receiver == self.rank:
            self.own_mail[kind, stage, micro_batch] = tensor
            return
        tensor = tensor.contiguous()
        work = dist.isend(tensor, group=self.groups[FORWARD], group_dst=receiver, tag=int(kind == BACKWARD))
        self.sending = [(under_way, kept) for under_way, kept in self.sending if not under_way.is_completed()]
        self.sending.append((work, tensor))
        # endregion
        # region solution receive
        sender = (stage - 1 if kind == FORWARD else stage + 1) % self.num_ranks
        if sender == self.rank:
            return self.own_mail.pop((kind, stage, micro_batch))
        tensor = torch.empty_like(self.boundary, requires_grad=False)
        dist.recv(tensor, group=self.groups[FORWARD], group_src=sender, tag=int(kind == BACKWARD))
        return tensor
        # endregion
