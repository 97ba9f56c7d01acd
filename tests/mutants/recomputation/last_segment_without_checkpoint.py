"""Runs the last segment plainly, as the library does.

law: recomputation.sequential.recomputes_each_layer_once
says: last
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
        x = checkpoint(run, layers[start:stop], x) if i < num_segments - 1 else run(layers[start:stop], x)
        start = stop
    return x
# endregion
