"""Keeps all graphs with everything that they have saved.

law: pipeline_parallel.executor.fits_in_the_memory_of_its_depth
says: memory
"""
# region solution backward
# pop: with the output its graph goes, and with the graph the activations. That is what bounds the memory.
x, output = self.in_flight[stage, micro_batch]
if output.requires_grad:  # not so where a first stage is frozen
    torch.autograd.backward(output, gradient, retain_graph=True)
if stage > 0:
    self._send(BACKWARD, stage - 1, micro_batch, torch.zeros_like(x) if x.grad is None else x.grad)
# endregion
