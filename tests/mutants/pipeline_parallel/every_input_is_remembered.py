"""Notes down what every stage got, for a look at it afterwards.

law: pipeline_parallel.executor.fits_in_the_memory_of_its_depth
says: 16 inputs of a stage
"""
        # region solution forward
        if stage > 0:
            x.requires_grad_()
        self.__dict__.setdefault("seen", []).append(x.detach())
        output = self.stages[stage](x)
        if stage < self.num_stages - 1:
            self._send(FORWARD, stage + 1, micro_batch, output.detach())
        else:
            output = self.loss_function(output, target) * share
        self.in_flight[stage, micro_batch] = x, output
        return output.detach()
        # endregion
