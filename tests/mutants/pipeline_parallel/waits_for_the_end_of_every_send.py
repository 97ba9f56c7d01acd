"""Sends with dist.send: GPipe works, and in 1F1B two neighbours wait for each other.

law: pipeline_parallel.executor.runs_any_valid_schedule
says: wait
"""
        # region solution stage_init
        self.in_flight: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
        self.own_mail: dict[tuple[str, int, int], torch.Tensor] = {}
        # endregion
        # region solution run
        num_micro_batches = len({action.micro_batch for action in schedule[self.rank]})
        losses = []
        for kind, stage, micro_batch in schedule[self.rank]:
            is_last = stage == self.num_stages - 1
            if kind == FORWARD:
                x = inputs[micro_batch] if stage == 0 else self._receive(FORWARD, stage, micro_batch)
                loss = self._forward(stage, micro_batch, x, targets[micro_batch] if is_last else None, 1 / num_micro_batches)
                losses += [loss] if is_last else []
            else:
                self._backward(stage, micro_batch, None if is_last else self._receive(BACKWARD, stage, micro_batch))
        return torch.stack(losses).sum() if losses else None
        # endregion
        # region solution send
        receiver = stage % self.num_ranks
        if receiver == self.rank:
            self.own_mail[kind, stage, micro_batch] = tensor
            return
        dist.send(tensor.contiguous(), group=self.groups[kind], group_dst=receiver, tag=int(kind == BACKWARD))
        # endregion
