"""Detaches what goes from one segment to the next.

law: recomputation.sequential.gradients_are_exact
says: gradient
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
        x = checkpoint(run, layers[start:stop], x.detach() if start else x)
        start = stop
    return x
# endregion
