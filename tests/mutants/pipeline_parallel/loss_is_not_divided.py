"""The sum over the micro-batches instead of their mean.

law: pipeline_parallel.executor.gradients_equal_one_process
says: micro-batches
"""
# region solution forward
if stage > 0:
    x.requires_grad_()  # a leaf: its grad is what the stage before waits for
output = self.stages[stage](x)
if stage < self.num_stages - 1:
    self._send(FORWARD, stage + 1, micro_batch, output.detach())
else:
    # The mean over micro-batches is the mean over the batch: each counts 1/M. Divided here, all gradients before are right.
    output = self.loss_function(output, target)
self.in_flight[stage, micro_batch] = x, output  # and nowhere else, or the graph outlives its backward
return output.detach()
# endregion
