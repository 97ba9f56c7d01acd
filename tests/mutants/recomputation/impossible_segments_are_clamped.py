"""Takes 1 for too few segments and L for too many.

law: recomputation.sequential.refuses_impossible_segments
says: ValueError
"""
# region solution checkpoint_sequential
    num_segments = max(1, min(num_segments, len(layers)))

    def run(segment: Sequence[Callable[[Tensor], Tensor]], x: Tensor) -> Tensor:
        for layer in segment:
            x = layer(x)
        return x

    length, longer = divmod(len(layers), num_segments)
    start = 0
    for i in range(num_segments):
        stop = start + length + (i < longer)
        x = checkpoint(run, layers[start:stop], x)
        start = stop
    return x
# endregion
