"""Keeps for each micro-batch in flight a function that ends it, and sends through batch_isend_irecv.
"""
        # region solution stage_init
        self.to_end: dict[tuple[int, int], Callable[[torch.Tensor | None], torch.Tensor | None]] = {}
        self.on_this_rank: dict[Action, torch.Tensor] = {}
        self.letters: list[tuple[list[dist.Work], torch.Tensor]] = []
        # endregion
        # region solution run
        mine = list(schedule[self.rank])
        share = 1 / len({action.micro_batch for action in mine})
        mean = None
        for kind, stage, micro_batch in mine:
            is_last = stage == self.num_stages - 1
            if kind == FORWARD:
                x = inputs[micro_batch] if stage == 0 else self._receive(kind, stage, micro_batch)
                result = self._forward(stage, micro_batch, x, targets[micro_batch] if is_last else None, share)
                if is_last:
                    mean = result * share if mean is None else mean + result * share
            else:
                self._backward(stage, micro_batch, None if is_last else self._receive(kind, stage, micro_batch))
        for works, _ in self.letters:
            for work in works:
                work.wait()
        self.letters = []
        return mean
        # endregion
        # region solution forward
        if stage > 0:
            x.requires_grad_()
        output = self.stages[stage](x)
        if stage == self.num_stages - 1:
            output = self.loss_function(output, target)
        else:
            self._send(FORWARD, stage + 1, micro_batch, output.detach())

        def end(gradient: torch.Tensor | None) -> torch.Tensor | None:
            if output.requires_grad:
                output.backward(torch.full_like(output, share) if gradient is None else gradient)
            if stage == 0:
                return None
            return x.grad if x.grad is not None else torch.zeros_like(x)

        self.to_end[stage, micro_batch] = end
        return output.detach()
        # endregion
        # region solution backward
        back = self.to_end.pop((stage, micro_batch))(gradient)
        if back is not None:
            self._send(BACKWARD, stage - 1, micro_batch, back)
        # endregion
        # region solution send
        peer = stage % self.num_ranks
        if peer == self.rank:
            self.on_this_rank[Action(kind, stage, micro_batch)] = tensor
            return
        tensor = tensor.contiguous()
        letter = dist.P2POp(dist.isend, tensor, group=self.groups[kind], tag=1 + (kind == FORWARD), group_peer=peer)
        self.letters = [(works, kept) for works, kept in self.letters if not all(work.is_completed() for work in works)]
        self.letters.append((dist.batch_isend_irecv([letter]), tensor))
        # endregion
        # region solution receive
        peer = (stage + (-1 if kind == FORWARD else 1)) % self.num_ranks
        if peer == self.rank:
            return self.on_this_rank.pop(Action(kind, stage, micro_batch))
        tensor = torch.empty(self.boundary.shape, dtype=self.boundary.dtype, device=self.boundary.device)
        letter = dist.P2POp(dist.irecv, tensor, group=self.groups[kind], tag=1 + (kind == FORWARD), group_peer=peer)
        for work in dist.batch_isend_irecv([letter]):
            work.wait()
        return tensor
        # endregion
