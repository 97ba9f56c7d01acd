"""Collects the losses as they are and detaches their sum in the end: so long every micro-batch's graph lives on the last rank.

law: pipeline_parallel.executor.keeps_what_the_schedule_needs
says: graph
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
        return torch.stack(losses).sum().detach() if losses else None
        # endregion
        # region solution forward
        if stage > 0:
            x.requires_grad_()
        output = self.stages[stage](x)
        if stage < self.num_stages - 1:
            self._send(FORWARD, stage + 1, micro_batch, output.detach())
        else:
            output = self.loss_function(output, target) * share
        self.in_flight[stage, micro_batch] = x, output
        return output
        # endregion
