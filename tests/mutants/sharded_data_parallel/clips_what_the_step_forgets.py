"""Clips copies of the gradient's shards.

law: sharded_data_parallel.clip.steps_are_clipped
says: clipp
"""
# region solution sharded_clip
    return clip_grad_norm_([gradient.clone() for gradient in self.reduce_gradients()], max_norm, self.group)
# endregion
