"""Cuts segments of ceil(L / s) layers: the last is short, and there may be fewer than s.

law: recomputation.sequential.segments_are_balanced
says: segment
"""
# region solution checkpoint_sequential
    if not 1 <= num_segments <= len(layers):
        raise ValueError(f"{len(layers)} layers can be cut into 1 to {len(layers)} segments, not into {num_segments}")

    def run(segment: Sequence[Callable[[Tensor], Tensor]], x: Tensor) -> Tensor:
        for layer in segment:
            x = layer(x)
        return x

    length, longer = divmod(len(layers), num_segments)
    length += longer > 0
    for start in range(0, len(layers), length):
        stop = start + length
        x = checkpoint(run, layers[start:stop], x)
    return x
# endregion
