"""Random state and autocast are set and put back by hand; apply is called under no_grad too, where autograd records nothing; only tensors
that need a gradient get a leaf that requires grad.
"""
# region solution remember_surroundings
    devices = {tensor.device for tensor in tensors if tensor.is_cuda}
    kinds = sorted({"cpu", *(device.type for device in devices)})
    then = torch.random.get_rng_state(), {device: torch.cuda.get_rng_state(device) for device in devices}
    settings = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds]

    class Again:
        def __enter__(self) -> None:
            self.now = torch.random.get_rng_state(), {device: torch.cuda.get_rng_state(device) for device in devices}
            self.casts = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds]
            self.cached = torch.is_autocast_cache_enabled()
            self.put(then, settings)
            torch.set_autocast_cache_enabled(False)

        def __exit__(self, *trouble: object) -> None:
            self.put(self.now, self.casts)
            torch.set_autocast_cache_enabled(self.cached)

        def put(self, states: Any, casts: Any) -> None:
            torch.random.set_rng_state(states[0])
            for device, state in states[1].items():
                torch.cuda.set_rng_state(state, device)
            for kind, enabled, dtype in casts:
                torch.set_autocast_enabled(kind, enabled)
                torch.set_autocast_dtype(kind, dtype)

    return Again
# endregion

# region solution checkpoint_forward
        ctx.again, ctx.function, ctx.save = remember_surroundings(tensors), function, save
        ctx.split = len(tensors)
        ctx.set_materialize_grads(False)
        if save:
            with Keeper(save) as keeper:
                outputs = function(*tensors)
            ctx.save_for_backward(*tensors, *keeper.outputs)
            return outputs
        ctx.save_for_backward(*tensors)
        return function(*tensors)
# endregion

# region solution checkpoint_backward
        tensors, kept = ctx.saved_tensors[: ctx.split], ctx.saved_tensors[ctx.split :]
        leaves = [t.detach() for t in tensors]
        for leaf, needs in zip(leaves, ctx.needs_input_grad[3:], strict=True):
            if needs:
                leaf.requires_grad = True
        with ctx.again():
            with contextlib.ExitStack() as stack:
                stack.enter_context(torch.enable_grad())
                if ctx.save:
                    stack.enter_context(Replayer(ctx.save, kept))
                outputs = ctx.function(*leaves)
        if not isinstance(outputs, tuple):
            outputs = (outputs,)
        roots = [i for i, y in enumerate(outputs) if y.requires_grad and gradients[i] is not None]
        torch.autograd.backward([outputs[i] for i in roots], [gradients[i] for i in roots])
        return (None, None, None, *[leaf.grad for leaf in leaves])
# endregion

# region solution checkpoint
    return _checkpointed(function, frozenset(), args, kwargs)
# endregion

# region solution selective_checkpoint
    return _checkpointed(function, frozenset(save), args, kwargs)
# endregion
