"""The checkpointed function looks at the loop's bounds when it is run again, and then they are the last segment's.

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
        x = checkpoint(lambda x: run(layers[start:stop], x), x)
        start = stop
    return x
# endregion
