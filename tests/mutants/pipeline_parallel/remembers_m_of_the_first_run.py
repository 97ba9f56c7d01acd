"""Counts the micro-batches once and keeps the number: a later run with more or fewer of them has wrong gradients.

law: pipeline_parallel.executor.gradients_equal_one_process
says: grad
"""
        # region solution stage_init
        self.in_flight: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
        self.sending: list[tuple[dist.Work, torch.Tensor]] = []
        self.share: float | None = None
        self.own_mail: dict[tuple[str, int, int], torch.Tensor] = {}
        # endregion
        # region solution run
        if self.share is None:
            self.share = 1 / len({action.micro_batch for action in schedule[self.rank]})
        losses = []
        for kind, stage, micro_batch in schedule[self.rank]:
            is_last = stage == self.num_stages - 1
            if kind == FORWARD:
                x = inputs[micro_batch] if stage == 0 else self._receive(FORWARD, stage, micro_batch)
                loss = self._forward(stage, micro_batch, x, targets[micro_batch] if is_last else None, self.share)
                losses += [loss] if is_last else []
            else:
                self._backward(stage, micro_batch, None if is_last else self._receive(BACKWARD, stage, micro_batch))
        for work, _ in self.sending:
            work.wait()
        self.sending.clear()
        return torch.stack(losses).sum() if losses else None
        # endregion
