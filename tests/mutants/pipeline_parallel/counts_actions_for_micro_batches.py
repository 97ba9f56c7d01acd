"""Takes half the length of its list for M, which counts every micro-batch once for each chunk.

law: pipeline_parallel.executor.chunks_get_their_own_messages
says: grad
"""
        # region solution run
        num_micro_batches = len(schedule[self.rank]) // 2
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
        return torch.stack(losses).sum() if losses else None
        # endregion
