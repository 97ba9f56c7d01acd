"""Keeps what stays on the rank in one queue per kind: with one rank a schedule may well take it in another order.

law: pipeline_parallel.executor.chunks_get_their_own_messages
says: stage
"""
        # region solution stage_init
        self.in_flight: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
        self.sending: list[tuple[dist.Work, torch.Tensor]] = []
        self.own_mail: dict[str, list[torch.Tensor]] = {FORWARD: [], BACKWARD: []}
        # endregion
        # region solution send
        receiver = stage % self.num_ranks
        if receiver == self.rank:
            self.own_mail[kind].append(tensor)
            return
        tensor = tensor.contiguous()
        work = dist.isend(tensor, group=self.groups[kind], group_dst=receiver, tag=int(kind == BACKWARD))
        self.sending = [(under_way, kept) for under_way, kept in self.sending if not under_way.is_completed()]
        self.sending.append((work, tensor))
        # endregion
        # region solution receive
        sender = (stage - 1 if kind == FORWARD else stage + 1) % self.num_ranks
        if sender == self.rank:
            return self.own_mail[kind].pop(0)
        tensor = torch.empty_like(self.boundary, requires_grad=False)
        dist.recv(tensor, group=self.groups[kind], group_src=sender, tag=int(kind == BACKWARD))
        return tensor
        # endregion
