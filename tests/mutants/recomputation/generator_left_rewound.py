"""Sets the forward's random state for the recomputation and leaves the generator there.

law: recomputation.checkpoint.generator_is_left_as_it_was
says: random state
"""
# region solution remember_surroundings
    devices = sorted({tensor.device.index for tensor in tensors if tensor.is_cuda})
    state, states = torch.get_rng_state(), [torch.cuda.get_rng_state(device) for device in devices]
    kinds = ["cpu", "cuda"] if devices else ["cpu"]
    casts = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds]

    @contextlib.contextmanager
    def again() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            torch.set_rng_state(state)
            for device, earlier in zip(devices, states, strict=True):
                torch.cuda.set_rng_state(earlier, device)
            for kind, enabled, dtype in casts:
                stack.enter_context(torch.autocast(kind, enabled=enabled, dtype=dtype, cache_enabled=False))
            yield

    return again
# endregion
