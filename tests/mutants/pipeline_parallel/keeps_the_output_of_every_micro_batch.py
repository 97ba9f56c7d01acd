"""Keeps each micro-batch's input and output until the run is over, though the graph between them is gone.

law: pipeline_parallel.executor.fits_in_the_memory_of_its_depth
says: memory
"""
        # region solution stage_init
        self.in_flight: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
        self.sending: list[tuple[dist.Work, torch.Tensor]] = []
        self.kept: list[torch.Tensor] = []
        self.own_mail: dict[tuple[str, int, int], torch.Tensor] = {}
        # endregion
        # region solution run
        num_micro_batches = len({action.micro_batch for action in schedule[self.rank]})
        losses = []
        for kind, stage, micro_batch in schedule[self.rank]:
            is_last = stage == self.num_stages - 1
            if kind == FORWARD:
                x = inputs[micro_batch] if stage == 0 else self._receive(FORWARD, stage, micro_batch)
                loss = self._forward(stage, micro_batch, x, targets[micro_batch] if is_last else None, 1 / num_micro_batches)
                losses += [loss] if is_last else []
            else:
                self._backward(stage, micro_batch, None if is_last else self._receive(BACKWARD, stage, micro_batch))
        for work, _ in self.sending:
            work.wait()
        self.sending.clear()
        self.kept.clear()
        return torch.stack(losses).sum() if losses else None
        # endregion
        # region solution backward
        x, output = self.in_flight.pop((stage, micro_batch))
        self.kept += [x, output.detach()]
        if output.requires_grad:
            torch.autograd.backward(output, gradient)
        if stage > 0:
            self._send(BACKWARD, stage - 1, micro_batch, torch.zeros_like(x) if x.grad is None else x.grad)
        # endregion
