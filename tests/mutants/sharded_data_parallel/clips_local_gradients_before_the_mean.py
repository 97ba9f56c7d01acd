"""Clips this rank's whole gradients before they are averaged.

law: sharded_data_parallel.clip.steps_are_clipped
says: clip
"""
        # region solution sharded_clip
        whole = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        return nn.utils.clip_grad_norm_(whole, max_norm)
        # endregion
