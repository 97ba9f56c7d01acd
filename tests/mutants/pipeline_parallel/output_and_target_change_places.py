"""Hands the loss function the target first.

law: pipeline_parallel.executor.gradients_equal_one_process
says: the gradient of stage
"""
        # region solution forward
        if stage > 0:
            x.requires_grad_()
        output = self.stages[stage](x)
        if stage < self.num_stages - 1:
            self._send(FORWARD, stage + 1, micro_batch, output.detach())
        else:
            output = self.loss_function(target, output) * share
        self.in_flight[stage, micro_batch] = x, output
        return output.detach()
        # endregion
