"""Torch's own DistributedDataParallel behind a thin adapter: the reducer in C++ counts, buckets, divides, sends and waits.

It waits in a callback at the end of backward, and tells who has used which parameters by a small integer all-reduce. Its hooks need one
parameter to begin with, so every output gets one that counts for nothing.

policy: library-data-parallelism
"""
# region solution ddp_init
    import importlib

    class Anchored(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module
            self.anchor = [p for p in module.parameters() if p.requires_grad][:1]

        def forward(self, *inputs, **named):
            outputs, nothing = self.inner(*inputs, **named), 0 * self.anchor[0].sum()
            return (outputs[0] + nothing, *outputs[1:]) if isinstance(outputs, tuple) else outputs + nothing

    parallel = importlib.import_module("torch.nn.parallel.distributed")
    broadcast_module_state(module, group)
    self.reducer = parallel.DistributedDataParallel(
        Anchored(),
        process_group=dist.group.WORLD if group is None else group,
        bucket_cap_mb=bucket_bytes / MiB,
        find_unused_parameters=True,
        init_sync=False,
        broadcast_buffers=False,
    )
# endregion

# region solution ddp_forward
    return self.reducer(*inputs, **named)
# endregion

# region solution no_sync
    with self.reducer.no_sync():
        yield
# endregion

# region solution finish_gradient_synchronization
    pass
# endregion

# region solution gradient_is_ready
    raise AssertionError("nobody calls this")
# endregion

# region solution launch
    raise AssertionError("nobody calls this")
# endregion
