"""Goes backward with retain_graph=True and looks up what is in flight without taking it out; all goes when the run is over.

law: pipeline_parallel.executor.fits_in_the_memory_of_its_depth
says: memory
"""
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
        self.in_flight.clear()
        return torch.stack(losses).sum() if losses else None
        # endregion
        # region solution backward
        x, output = self.in_flight[stage, micro_batch]
        if output.requires_grad:
            torch.autograd.backward(output, gradient, retain_graph=True)
        if stage > 0:
            self._send(BACKWARD, stage - 1, micro_batch, torch.zeros_like(x) if x.grad is None else x.grad)
        # endregion
