"""Clears the gradients at the start of each run.

law: pipeline_parallel.executor.gradients_equal_one_process
says: runs
"""
# region solution run
for module in self.stages.values():
    module.zero_grad()
# Every rank has an action for every micro-batch, but only one has the inputs: so their number is read off the schedule.
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
return torch.stack(losses).sum() if losses else None
# endregion
