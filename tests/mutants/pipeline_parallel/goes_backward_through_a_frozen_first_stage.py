"""Calls backward on every output, also on that of a first stage in which nothing is trained.

law: pipeline_parallel.executor.gradients_equal_one_process
says: require grad
"""
        # region solution backward
        x, output = self.in_flight.pop((stage, micro_batch))
        torch.autograd.backward(output, gradient)
        if stage > 0:
            self._send(BACKWARD, stage - 1, micro_batch, torch.zeros_like(x) if x.grad is None else x.grad)
        # endregion
