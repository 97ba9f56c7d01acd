"""Starts all receives when a run begins, and waits for each just before it is needed.
"""
# region solution stage_init
self.in_flight, self.sending, self.own_mail, self.coming = {}, [], {}, {}
# endregion
# region solution run
for action in schedule[self.rank]:
    neighbour = action.stage - 1 if action.kind == FORWARD else action.stage + 1
    if 0 <= neighbour < self.num_stages and neighbour % self.num_ranks != self.rank:
        tensor = torch.zeros_like(self.boundary)
        kind = action.kind
        work = dist.irecv(tensor, group=self.groups[kind], group_src=neighbour % self.num_ranks, tag=int(kind == BACKWARD))
        self.coming[tuple(action)] = work, tensor
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
# region solution receive
if (kind, stage, micro_batch) in self.own_mail:
    return self.own_mail.pop((kind, stage, micro_batch))
work, tensor = self.coming.pop((kind, stage, micro_batch))
work.wait()
return tensor
# endregion
