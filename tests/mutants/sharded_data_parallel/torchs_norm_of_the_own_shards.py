"""Calls torch's clip_grad_norm_ on this rank's shards.

law: sharded_data_parallel.clip.steps_are_clipped
says: clip
"""
        # region solution fsdp_clip
        return nn.utils.clip_grad_norm_(list(self.named_shards().values()), max_norm)
        # endregion
