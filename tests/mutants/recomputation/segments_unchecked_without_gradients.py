"""Refuses impossible segments only where gradients are recorded.

law: recomputation.sequential.refuses_impossible_segments
says: under no_grad
"""
# region solution checkpoint_sequential
    if torch.is_grad_enabled() and not 1 <= num_segments <= len(layers):
        raise ValueError(f"{len(layers)} layers make 1 to {len(layers)} segments, not {num_segments}")

    def run(segment: Sequence[Callable[[Tensor], Tensor]], x: Tensor) -> Tensor:
        for layer in segment:
            x = layer(x)
        return x

    length, num_longer = divmod(len(layers), num_segments)
    start = 0
    for index in range(num_segments):
        stop = start + length + (index < num_longer)
        x = checkpoint(run, layers[start:stop], x)
        start = stop
    return x
# endregion
