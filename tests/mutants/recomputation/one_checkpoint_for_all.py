"""Puts all layers in one checkpoint, whatever the number of segments.

law: recomputation.sequential.peak_follows_the_square_root
says: units
"""
# region solution checkpoint_sequential
    if not 1 <= num_segments <= len(layers):
        raise ValueError(f"{len(layers)} layers can be cut into 1 to {len(layers)} segments, not into {num_segments}")

    def run(x: Tensor) -> Tensor:
        for layer in layers:
            x = layer(x)
        return x

    return checkpoint(run, x)
# endregion
