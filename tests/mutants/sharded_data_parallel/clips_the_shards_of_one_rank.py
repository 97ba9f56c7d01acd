"""The module clips by each rank's own norm.

law: sharded_data_parallel.clip.steps_are_clipped
says: clipp
"""
# region solution fsdp_clip
    return nn.utils.clip_grad_norm_(self.parameters(), max_norm)
# endregion
