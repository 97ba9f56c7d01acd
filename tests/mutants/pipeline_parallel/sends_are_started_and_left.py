"""Starts every send and waits for none: run returns while the last gradient is still under way.

law: pipeline_parallel.executor.keeps_what_the_schedule_needs
says: wait
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
        self.sending.clear()
        return torch.stack(losses).sum() if losses else None
        # endregion
