"""Collects what forwards in a row have made and sends it together when a backward comes, and the other way round: one batch, all late.

law: pipeline_parallel.executor.takes_the_time_of_the_schedule
says: time
"""
        # region solution stage_init
        self.in_flight: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
        self.sending: list[tuple[dist.Work, torch.Tensor]] = []
        self.to_send: list[tuple[str, int, int, torch.Tensor]] = []
        self.own_mail: dict[tuple[str, int, int], torch.Tensor] = {}
        # endregion
        # region solution run
        num_micro_batches = len({action.micro_batch for action in schedule[self.rank]})
        losses = []
        kind_before = None
        for kind, stage, micro_batch in schedule[self.rank]:
            if kind != kind_before:
                self._send(kind, -1, -1, self.boundary)
            kind_before = kind
            is_last = stage == self.num_stages - 1
            if kind == FORWARD:
                x = inputs[micro_batch] if stage == 0 else self._receive(FORWARD, stage, micro_batch)
                loss = self._forward(stage, micro_batch, x, targets[micro_batch] if is_last else None, 1 / num_micro_batches)
                losses += [loss] if is_last else []
            else:
                self._backward(stage, micro_batch, None if is_last else self._receive(BACKWARD, stage, micro_batch))
        self._send(FORWARD, -1, -1, self.boundary)
        for work, _ in self.sending:
            work.wait()
        self.sending.clear()
        return torch.stack(losses).sum() if losses else None
        # endregion
        # region solution send
        receiver = stage % self.num_ranks
        if stage >= 0 and receiver == self.rank:
            self.own_mail[kind, stage, micro_batch] = tensor
            return
        if stage >= 0:
            self.to_send.append((kind, stage, micro_batch, tensor.contiguous()))
            return
        self.sending = [(under_way, kept) for under_way, kept in self.sending if not under_way.is_completed()]
        for earlier, to, _, message in self.to_send:
            peer = to % self.num_ranks
            work = dist.isend(message, group=self.groups[earlier], group_dst=peer, tag=int(earlier == BACKWARD))
            self.sending.append((work, message))
        self.to_send.clear()
        # endregion
