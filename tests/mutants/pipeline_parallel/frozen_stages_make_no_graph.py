"""Runs a stage without trainable parameters under no_grad: the stages before it get zeros.

law: pipeline_parallel.executor.gradients_equal_one_process
says: frozen
"""
        # region solution forward
        if stage > 0:
            x.requires_grad_()
        trains = any(parameter.requires_grad for parameter in self.stages[stage].parameters())
        with torch.set_grad_enabled(trains or stage == self.num_stages - 1):
            output = self.stages[stage](x)
        if stage < self.num_stages - 1:
            self._send(FORWARD, stage + 1, micro_batch, output.detach())
        else:
            output = self.loss_function(output, target) * share
        self.in_flight[stage, micro_batch] = x, output
        return output.detach()
        # endregion
