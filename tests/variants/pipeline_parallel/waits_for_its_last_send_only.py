"""Waits for its last send only: activations have been answered by then, and gradients go to one neighbour in their order."""
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
        if self.sending:
            self.sending[-1][0].wait()
        self.sending.clear()
        return torch.stack(losses).sum() if losses else None
        # endregion
