"""Asks the first tensor for its device: a function without arguments has none.

law: recomputation.checkpoint.parameters_learn_without_differentiable_inputs
says: IndexError
"""
# region solution remember_surroundings
    devices = [tensors[0].device.index] if tensors[0].is_cuda else []
    cpu_state, cuda_states = torch.get_rng_state(), [torch.cuda.get_rng_state(device) for device in devices]
    kinds = ["cpu", "cuda"] if devices else ["cpu"]
    settings = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds]
    cache_enabled = torch.is_autocast_cache_enabled()

    @contextlib.contextmanager
    def again() -> Iterator[None]:
        with torch.random.fork_rng(devices), contextlib.ExitStack() as stack:
            torch.set_rng_state(cpu_state)
            for device, state in zip(devices, cuda_states, strict=True):
                torch.cuda.set_rng_state(state, device)
            for kind, enabled, dtype in settings:
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled))
            yield

    return again
# endregion
