"""Announces the shape of each tensor in a message of its own, though all have that of the boundary.

law: pipeline_parallel.executor.each_boundary_is_crossed_once
says: boundary
"""
        # region solution send
        receiver = stage % self.num_ranks
        if receiver == self.rank:
            self.own_mail[kind, stage, micro_batch] = tensor
            return
        tensor = tensor.contiguous()
        shape = torch.tensor(tensor.shape, device=tensor.device)
        announcement = dist.isend(shape, group=self.groups[kind], group_dst=receiver, tag=int(kind == BACKWARD))
        self.sending.append((announcement, shape))
        work = dist.isend(tensor, group=self.groups[kind], group_dst=receiver, tag=int(kind == BACKWARD))
        self.sending = [(under_way, kept) for under_way, kept in self.sending if not under_way.is_completed()]
        self.sending.append((work, tensor))
        # endregion
        # region solution receive
        sender = (stage - 1 if kind == FORWARD else stage + 1) % self.num_ranks
        if sender == self.rank:
            return self.own_mail.pop((kind, stage, micro_batch))
        shape = torch.empty(self.boundary.dim(), dtype=torch.int64, device=self.boundary.device)
        dist.recv(shape, group=self.groups[kind], group_src=sender, tag=int(kind == BACKWARD))
        tensor = self.boundary.new_empty(shape.tolist())
        dist.recv(tensor, group=self.groups[kind], group_src=sender, tag=int(kind == BACKWARD))
        return tensor
        # endregion
