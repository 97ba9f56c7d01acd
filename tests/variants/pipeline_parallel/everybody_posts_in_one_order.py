"""Plays the schedule in ticks that all ranks know, and posts the messages of a tick together, so that no link needs tags.
"""
# region solution run
num_micro_batches = len({action.micro_batch for action in schedule[self.rank]})
position, done, losses, coming = [0] * len(schedule), set(), [], {}
while any(place < len(actions) for place, actions in zip(position, schedule, strict=True)):
    tick = {}
    for rank, actions in enumerate(schedule):
        if position[rank] < len(actions):
            action = actions[position[rank]]
            if all(any(way in done for way in ways) for ways in needed_by(action, self.num_stages - 1)):
                tick[rank] = action
    messages = []
    for rank, action in sorted(tick.items()):
        position[rank] += 1
        done.add(action)
        after = action.stage + (1 if action.kind == FORWARD else -1)
        result = None
        if rank == self.rank:
            key = tuple(action)
            if key in coming:
                work, tensor = coming.pop(key)
                for each in work:
                    each.wait()
            else:
                tensor = self.own_mail.pop(key, None)
            is_last = action.stage == self.num_stages - 1
            if action.kind == FORWARD:
                x = inputs[action.micro_batch] if action.stage == 0 else tensor.requires_grad_()
                output = self.stages[action.stage](x)
                if is_last:
                    output = self.loss_function(output, targets[action.micro_batch]) / num_micro_batches
                    losses.append(output.detach())
                self.in_flight[action.stage, action.micro_batch] = x, output
                result = output.detach()
                del output
            else:
                x, output = self.in_flight.pop((action.stage, action.micro_batch))
                if output.requires_grad:
                    output.backward(tensor)
                result = x.grad
                del output
            for work, _ in self.sending:  # of earlier ticks, whose receivers have posted them
                work.wait()
            self.sending.clear()
        if 0 <= after < self.num_stages:
            messages.append((Action(action.kind, after, action.micro_batch), rank, after % self.num_ranks, result))
    for action, sender, receiver, result in messages:
        group = self.groups[action.kind]
        if sender == receiver == self.rank:
            self.own_mail[tuple(action)] = result
        elif sender == self.rank:
            works = dist.batch_isend_irecv([dist.P2POp(dist.isend, result.contiguous(), group=group, group_peer=receiver)])
            self.sending += [(work, result) for work in works]
        elif receiver == self.rank:
            tensor = torch.zeros_like(self.boundary)
            works = dist.batch_isend_irecv([dist.P2POp(dist.irecv, tensor, group=group, group_peer=sender)])
            coming[tuple(action)] = works, tensor
for work, _ in self.sending:
    work.wait()
self.sending.clear()
return sum(losses) if losses else None
# endregion
