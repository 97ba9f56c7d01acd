"""Sends the shape of every activation and gradient in a message of its own.

law: pipeline_parallel.executor.each_boundary_is_crossed_once
says: times the messages
"""
# region solution send
receiver = stage % self.num_ranks
if receiver == self.rank:
    self.own_mail[kind, stage, micro_batch] = tensor
    return
# Never wait here. A send may end only when its receive has come: in 1F1B a rank sends an activation down while its neighbour
# sends a gradient up, and if both waited, they would wait for ever.
shape = torch.tensor(tensor.shape)
self.sending.append((dist.isend(shape, group=self.groups[kind], group_dst=receiver, tag=2 + int(kind == BACKWARD)), shape))
tensor = tensor.contiguous()
work = dist.isend(tensor, group=self.groups[kind], group_dst=receiver, tag=int(kind == BACKWARD))
self.sending = [(under_way, kept) for under_way, kept in self.sending if not under_way.is_completed()]
self.sending.append((work, tensor))
# endregion
# region solution receive
# An activation comes from the stage before, a gradient from the stage behind.
sender = (stage - 1 if kind == FORWARD else stage + 1) % self.num_ranks
if sender == self.rank:
    return self.own_mail.pop((kind, stage, micro_batch))
# With two ranks and several chunks, activations and gradients share a link, in another order at each end: hence the tag.
shape = torch.empty(self.boundary.ndim, dtype=torch.int64)
dist.recv(shape, group=self.groups[kind], group_src=sender, tag=2 + int(kind == BACKWARD))
tensor = torch.empty_like(self.boundary, requires_grad=False)
dist.recv(tensor, group=self.groups[kind], group_src=sender, tag=int(kind == BACKWARD))
return tensor
# endregion
