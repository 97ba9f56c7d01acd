"""Reads its books in the backward and leaves the entry there.

law: pipeline_parallel.executor.keeps_what_the_schedule_needs
says: graphs
"""
# region solution backward
# pop: with the output its graph goes, and with the graph the activations. That is what bounds the memory.
x, output = self.in_flight[stage, micro_batch]
if output.requires_grad:  # not so where a first stage is frozen
    torch.autograd.backward(output, gradient)
if stage > 0:
    self._send(BACKWARD, stage - 1, micro_batch, torch.zeros_like(x) if x.grad is None else x.grad)
# endregion
