"""Clips every unit by its own norm.

law: sharded_data_parallel.clip.steps_are_clipped
says: clip
"""
        # region solution fsdp_clip
        norms = []
        for unit in self.units:
            gradients = [shard.grad for shard in unit.shards if shard.grad is not None] if unit is not None else []
            if gradients:
                norms.append(clip_grad_norm_(gradients, max_norm, self.group))
        return torch.stack(norms).square().sum().sqrt()
        # endregion
