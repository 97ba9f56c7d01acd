"""Makes a leaf that requires a gradient of every floating input, the caller's included, which is handed back with a grad.

law: pipeline_parallel.executor.gradients_equal_one_process
says: input
"""
        # region solution forward
        if x.is_floating_point():
            x.requires_grad_()
        output = self.stages[stage](x)
        if stage < self.num_stages - 1:
            self._send(FORWARD, stage + 1, micro_batch, output.detach())
        else:
            output = self.loss_function(output, target) * share
        self.in_flight[stage, micro_batch] = x, output
        return output.detach()
        # endregion
