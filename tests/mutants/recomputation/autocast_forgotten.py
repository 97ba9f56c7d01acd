"""Recomputes under whatever autocast surrounds backward.

law: recomputation.checkpoint.autocast_is_as_it_was
says: autocast
"""
# region solution remember_surroundings
    devices = sorted({tensor.device.index for tensor in tensors if tensor.is_cuda})
    state, states = torch.get_rng_state(), [torch.cuda.get_rng_state(device) for device in devices]
    kinds = ["cpu", "cuda"] if devices else ["cpu"]
    casts = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds]

    @contextlib.contextmanager
    def again() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.random.fork_rng(devices))
            torch.set_rng_state(state)
            for device, earlier in zip(devices, states, strict=True):
                torch.cuda.set_rng_state(earlier, device)
            yield

    return again
# endregion
