"""Clips copies of the reduced shards; step() goes on with the unclipped ones.

law: sharded_data_parallel.clip.steps_are_clipped
says: clip
"""
        # region solution sharded_clip
        return clip_grad_norm_([gradient.clone() for gradient in self.reduce_gradients()], max_norm, self.group)
        # endregion
