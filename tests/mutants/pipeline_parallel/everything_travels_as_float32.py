"""Sends activations and gradients in single precision, whatever the boundary's dtype: twice the bytes in bfloat16.

law: pipeline_parallel.executor.each_boundary_is_crossed_once
says: float64
"""
        # region solution send
        receiver = stage % self.num_ranks
        if receiver == self.rank:
            self.own_mail[kind, stage, micro_batch] = tensor
            return
        tensor = tensor.float().contiguous()
        work = dist.isend(tensor, group=self.groups[kind], group_dst=receiver, tag=int(kind == BACKWARD))
        self.sending = [(under_way, kept) for under_way, kept in self.sending if not under_way.is_completed()]
        self.sending.append((work, tensor))
        # endregion
        # region solution receive
        sender = (stage - 1 if kind == FORWARD else stage + 1) % self.num_ranks
        if sender == self.rank:
            return self.own_mail.pop((kind, stage, micro_batch))
        tensor = torch.empty_like(self.boundary, dtype=torch.float32, requires_grad=False)
        dist.recv(tensor, group=self.groups[kind], group_src=sender, tag=int(kind == BACKWARD))
        return tensor.to(self.boundary.dtype)
        # endregion
