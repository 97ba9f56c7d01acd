"""Uses torch.autograd.grad and adds the gradients itself; batches each send alone; forgets a send at the next one
after its end.
"""
# region solution backward
x, output = self.in_flight.pop((stage, micro_batch))
parameters = [p for p in self.stages[stage].parameters() if p.requires_grad]
wanted = parameters + ([x] if stage > 0 else [])
gradients = [None] * len(wanted)
if output.requires_grad and wanted:
    gradients = torch.autograd.grad(output, wanted, gradient, allow_unused=True)
for parameter, value in zip(parameters, gradients, strict=False):
    if value is not None:
        parameter.grad = value if parameter.grad is None else parameter.grad + value
del output
if stage > 0:
    self._send(BACKWARD, stage - 1, micro_batch, torch.zeros_like(x) if gradients[-1] is None else gradients[-1])
# endregion
# region solution send
receiver = stage % self.num_ranks
if receiver == self.rank:
    self.own_mail[kind, stage, micro_batch] = tensor
    return
group = self.groups[kind]
operation = dist.P2POp(dist.isend, tensor.contiguous(), group=group, group_peer=receiver, tag=int(kind == BACKWARD))
self.sending = [each for each in self.sending if not each[0].is_completed()]
self.sending += [(work, operation.tensor) for work in dist.batch_isend_irecv([operation])]
# endregion
