"""Broadcasts float buffers again before every forward pass, as torch's own does.

law: data_parallel.overlapped.each_gradient_travels_once
says: with buffers
"""
        # region solution ddp_forward
        for buffer in self.module.buffers():
            if buffer.is_floating_point():
                dist.broadcast(buffer, group=self.group, group_src=0)
        return self.module(*inputs, **named)
        # endregion
