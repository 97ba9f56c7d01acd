"""Sends activations to rank + 1 and gradients to rank - 1, also from the last rank and from the first.

law: pipeline_parallel.executor.chunks_get_their_own_messages
says: rank
"""
        # region solution send
        receiver = self.rank + 1 if kind == FORWARD else self.rank - 1
        if self.num_ranks == 1:
            self.own_mail[kind, stage, micro_batch] = tensor
            return
        tensor = tensor.contiguous()
        work = dist.isend(tensor, group=self.groups[kind], group_dst=receiver, tag=int(kind == BACKWARD))
        self.sending = [(under_way, kept) for under_way, kept in self.sending if not under_way.is_completed()]
        self.sending.append((work, tensor))
        # endregion
        # region solution receive
        sender = self.rank - 1 if kind == FORWARD else self.rank + 1
        if self.num_ranks == 1:
            return self.own_mail.pop((kind, stage, micro_batch))
        tensor = torch.empty_like(self.boundary, requires_grad=False)
        dist.recv(tensor, group=self.groups[kind], group_src=sender, tag=int(kind == BACKWARD))
        return tensor
        # endregion
