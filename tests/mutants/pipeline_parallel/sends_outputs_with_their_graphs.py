"""Sends the output without detaching it, and keeps it with its graph until all sends are waited for at the end.

law: pipeline_parallel.executor.keeps_what_the_schedule_needs
says: graph
"""
        # region solution forward
        if stage > 0:
            x.requires_grad_()
        output = self.stages[stage](x)
        if stage < self.num_stages - 1:
            self._send(FORWARD, stage + 1, micro_batch, output)
        else:
            output = self.loss_function(output, target) * share
        self.in_flight[stage, micro_batch] = x, output
        return output.detach()
        # endregion
        # region solution send
        receiver = stage % self.num_ranks
        if receiver == self.rank:
            self.own_mail[kind, stage, micro_batch] = tensor.detach()
            return
        tensor = tensor.contiguous()
        work = dist.isend(tensor, group=self.groups[kind], group_dst=receiver, tag=int(kind == BACKWARD))
        self.sending.append((work, tensor))
        # endregion
