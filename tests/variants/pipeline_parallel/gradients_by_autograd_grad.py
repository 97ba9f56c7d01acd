"""Asks autograd.grad for the gradients and adds them up itself; weighs the first gradient and not the loss; receives with irecv.
"""
        # region solution run
        mine = schedule[self.rank]
        num_micro_batches = 1 + max(action.micro_batch for action in mine)
        total = None
        for kind, stage, micro_batch in mine:
            is_last = stage + 1 == self.num_stages
            if kind == BACKWARD:
                seed = torch.tensor(1 / num_micro_batches, dtype=self.boundary.dtype, device=self.boundary.device) if is_last else None
                self._backward(stage, micro_batch, seed if is_last else self._receive(BACKWARD, stage, micro_batch))
                continue
            x = self._receive(FORWARD, stage, micro_batch) if stage else inputs[micro_batch]
            result = self._forward(stage, micro_batch, x, targets[micro_batch] if is_last else None, 1.0)
            if is_last:
                total = result.clone() if total is None else total + result
        while self.sending:
            self.sending.pop()[0].wait()
        return None if total is None else total / num_micro_batches
        # endregion
        # region solution forward
        x = x.detach().requires_grad_() if stage else x
        output = self.stages[stage](x)
        if target is not None:
            output = self.loss_function(output, target)
        self.in_flight[stage, micro_batch] = x, output
        if stage + 1 < self.num_stages:
            self._send(FORWARD, stage + 1, micro_batch, output.detach())
        return output.detach()
        # endregion
        # region solution backward
        x, output = self.in_flight.pop((stage, micro_batch))
        parameters = [parameter for parameter in self.stages[stage].parameters() if parameter.requires_grad]
        wanted = parameters + [x] if stage else parameters
        found: list[torch.Tensor | None] = [None] * len(wanted)
        if wanted and output.requires_grad:
            found = list(torch.autograd.grad(output, wanted, gradient.to(output.dtype), allow_unused=True))
        if stage:
            back = found.pop()
            self._send(BACKWARD, stage - 1, micro_batch, torch.zeros_like(x) if back is None else back)
        for parameter, piece in zip(parameters, found, strict=True):
            if piece is not None:
                parameter.grad = piece.clone() if parameter.grad is None else parameter.grad + piece
        # endregion
        # region solution send
        receiver = stage % self.num_ranks
        if receiver == self.rank:
            self.own_mail[kind, stage, micro_batch] = tensor
            return
        tensor = tensor.contiguous()
        work = dist.isend(tensor, group=self.groups[kind], group_dst=receiver, tag=7 if kind == FORWARD else 3)
        self.sending = [(under_way, kept) for under_way, kept in self.sending if not under_way.is_completed()]
        self.sending.append((work, tensor))
        # endregion
        # region solution receive
        sender = (stage - 1 if kind == FORWARD else stage + 1) % self.num_ranks
        if sender == self.rank:
            return self.own_mail.pop((kind, stage, micro_batch))
        tensor = torch.zeros_like(self.boundary, requires_grad=False).contiguous()
        dist.irecv(tensor, group=self.groups[kind], group_src=sender, tag=7 if kind == FORWARD else 3).wait()
        return tensor
        # endregion
