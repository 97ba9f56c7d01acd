"""Segments by tensor_split of the indices, each on top of a call for those before it; weights are handed to backward as its incoming
gradient, and shares are added up at the end; outputs are kept and handed out in one expression each.
"""
# region solution accumulate_gradients
    counts = [(targets != IGNORED).sum() for _, targets in micro_batches]
    total = int(torch.stack(counts).sum()) if counts else 0
    shares = []
    for i, (inputs, targets) in enumerate(micro_batches):
        if not counts[i]:
            continue
        mean = loss(model(inputs), targets)
        weight = counts[i].to(mean) / total
        mean.backward(weight)
        shares.append(mean.detach() * weight)
        del mean
    return torch.stack(shares).sum() if shares else torch.zeros(())
# endregion

# region solution checkpoint_sequential
    if num_segments < 1 or num_segments > len(layers):
        raise ValueError(f"num_segments is {num_segments}, and there are {len(layers)} layers")

    def compose(members: list[Callable[[Tensor], Tensor]]) -> Callable[[Tensor], Tensor]:
        def segment(h: Tensor) -> Tensor:
            for member in members:
                h = member(h)
            return h

        return segment

    def up_to(segments: Sequence[Tensor]) -> Tensor:
        if not segments:
            return x
        return checkpoint(compose([layers[i] for i in segments[-1].tolist()]), up_to(segments[:-1]))

    return up_to(torch.arange(len(layers)).tensor_split(num_segments))
# endregion

# region solution keep
        given = func(*args, **(kwargs or {}))
        if func in self.save:
            self.outputs += [given.detach()] if isinstance(given, Tensor) else [each.detach() for each in given]
        return given
# endregion

# region solution replay
        if func in self.save:
            several = [self.outputs.pop(0).detach() for _ in range(len(func._schema.returns))]
            return several[0] if len(several) == 1 else tuple(several)
        return func(*args, **(kwargs or {}))
# endregion
