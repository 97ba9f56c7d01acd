"""Broadcasts the loss from the last stage's rank, so that everybody can print it.

law: pipeline_parallel.executor.each_boundary_is_crossed_once
says: broadcast
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
        loss = torch.stack(losses).sum() if losses else torch.zeros((), device=self.boundary.device)
        dist.broadcast(loss, group=self.groups[FORWARD], group_src=(self.num_stages - 1) % self.num_ranks)
        return loss if losses else None
        # endregion
