"""Goes backward from whatever of the stage has waited longest: right for schedules whose micro-batches stay in order.

law: pipeline_parallel.executor.runs_any_valid_schedule
says: order
"""
        # region solution stage_init
        self.in_flight: dict[int, list[tuple[torch.Tensor, torch.Tensor]]] = {stage: [] for stage in stages}
        self.sending: list[tuple[dist.Work, torch.Tensor]] = []
        self.own_mail: dict[tuple[str, int, int], torch.Tensor] = {}
        # endregion
        # region solution forward
        if stage > 0:
            x.requires_grad_()
        output = self.stages[stage](x)
        if stage < self.num_stages - 1:
            self._send(FORWARD, stage + 1, micro_batch, output.detach())
        else:
            output = self.loss_function(output, target) * share
        self.in_flight[stage].append((x, output))
        return output.detach()
        # endregion
        # region solution backward
        x, output = self.in_flight[stage].pop(0)
        if output.requires_grad:
            torch.autograd.backward(output, gradient)
        if stage > 0:
            self._send(BACKWARD, stage - 1, micro_batch, torch.zeros_like(x) if x.grad is None else x.grad)
        # endregion
