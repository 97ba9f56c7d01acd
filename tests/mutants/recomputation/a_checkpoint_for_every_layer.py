"""Checkpoints every layer by itself and keeps L inputs, whatever the number of segments.

law: recomputation.sequential.peak_follows_the_square_root
says: units
"""
# region solution checkpoint_sequential
    if not 1 <= num_segments <= len(layers):
        raise ValueError(f"{len(layers)} layers can be cut into 1 to {len(layers)} segments, not into {num_segments}")

    def run(segment: Sequence[Callable[[Tensor], Tensor]], x: Tensor) -> Tensor:
        for layer in segment:
            x = layer(x)
        return x

    length, longer = divmod(len(layers), num_segments)
    start = 0
    for i in range(num_segments):
        stop = start + length + (i < longer)
        for layer in layers[start:stop]:
            x = checkpoint(layer, x)
        start = stop
    return x
# endregion
