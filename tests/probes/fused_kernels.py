"""What runs beside a submission to `fused_kernels`: it drives the functions and reports what they did. No opinions, nothing expected."""

from __future__ import annotations

import contextlib
import gc
import json
import mmap
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

FAR_STRIDE = 2**30  # elements between rows: the fourth row begins beyond 2**31
Named = dict[str, torch.Tensor]


class HostQuestions(TorchDispatchMode):
    """Notes what would make the host wait for a device: a number or a shape that depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        by_mask = name.startswith("index") and any(isinstance(x, torch.Tensor) and x.dtype == torch.bool for x in _indices(args))
        if name in ("_local_scalar_dense", "nonzero", "masked_select", "equal") or by_mask:
            self.names.append("a boolean index" if by_mask else {"_local_scalar_dense": "a tensor's number"}.get(name, name))
        return func(*args, **(kwargs or {}))


def _indices(args: Any) -> Any:
    return args[1] if len(args) > 1 and isinstance(args[1], list | tuple) else ()


# --- the three operations --------------------------------------------------------------------------------------------
def operation(at: Any, *, function: str, layout: str, options: dict[str, Any], is_backward: bool, is_watched: bool = False) -> Named:
    """rms_norm, bias_gelu or cross_entropy on the inputs but `d`, in that order: y, with `is_backward` d<input>, and the inputs as left.

    `d` is the gradient that comes in. Reported: what is kept between the passes, and watched, what the kernels of each did.
    """
    tensors = {name: laid_out(tensor, layout) for name, tensor in at.inputs.items()}
    leaves = {name: x.requires_grad_() if x.is_floating_point() else x for name, x in tensors.items() if name != "d"}
    if any(x.dtype == torch.bfloat16 for x in tensors.values()):
        at.report(broken_bfloat16=at.broken_bfloat16())
    watching = (lambda: at.watch_kernels(**tensors)) if is_watched else contextlib.nullcontext
    before, saved = live_storages(), {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    asking = HostQuestions() if is_watched else contextlib.nullcontext()  # its machinery is memory, too
    with watching() as forward, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), asking:
        y = getattr(at.submission.fused_kernels, function)(*leaves.values(), **options)
    gc.collect()
    kept = {start: num_bytes for start, num_bytes in live_storages().items() if start not in before} | saved
    output = y.untyped_storage().data_ptr()
    own = {x.untyped_storage().data_ptr() for x in tensors.values()}
    at.report(kept_bytes=sum(num_bytes for start, num_bytes in kept.items() if start not in own | {output}))
    at.report(keeps_output=output in saved, is_contiguous=y.is_contiguous(), is_new=not y.numel() or output not in own)
    returned = {"y": y.detach()}
    with watching() as backward, asking:
        if is_backward:
            wanted = {name: x for name, x in leaves.items() if x.requires_grad}
            gradients = torch.autograd.grad(y, tuple(wanted.values()), tensors["d"])
            returned |= {f"d{name}": gradient for name, gradient in zip(wanted, gradients, strict=True)}
    if is_watched:
        for watch in (forward, backward):
            watch.name(**returned)
        at.report(forward=forward.facts(), backward=backward.facts(), asked=asking.names)
    return returned | {f"{name}.after": tensor.detach() for name, tensor in tensors.items() if layout != "far"}


def compiled(at: Any, *, function: str, capability: int, shape: list[int]) -> None:
    """What both passes' kernels need on a chip of that compute capability, in float16; nothing is run."""
    x = torch.zeros(shape, dtype=torch.float16, requires_grad=True)
    if function == "cross_entropy":
        other = torch.zeros(shape[0], dtype=torch.int64)
    else:
        other = torch.zeros(shape[-1], dtype=torch.float16, requires_grad=True)
    with at.compile_kernels(capability) as kernels:
        y = getattr(at.submission.fused_kernels, function)(x, other)
        num_forward = len(kernels)
        y.backward(torch.zeros_like(y))
    at.report(kernels=kernels, num_forward=num_forward)


# --- roofline --------------------------------------------------------------------------------------------------------
def roofline(at: Any, *, asked: str, arguments: list[dict[str, Any]]) -> Named:
    """A function of the roofline task on each set of arguments. "inf" stands for infinity."""
    call = getattr(at.submission.bottlenecks, asked)
    told = [call(**{name: float(value) if value == "inf" else value for name, value in each.items()}) for each in arguments]
    at.report(kinds=[type(value).__name__ for value in told])
    return {"told": torch.tensor([float(value) for value in told], dtype=torch.float64)}


# --- compile ---------------------------------------------------------------------------------------------------------
def block_of(at: Any, limit: float, eps: float, sizes: tuple[int, int]) -> Any:
    """A FoundBlock, with the inputs as its parameters where there are some."""
    block = at.submission.bottlenecks.FoundBlock(*sizes, limit=limit, eps=eps).to(at.device)
    names = {"weight": block.weight, "up_weight": block.up.weight, "up_bias": block.up.bias, "down": block.down.weight}
    with torch.no_grad():
        for name, parameter in names.items():
            if name in at.inputs:
                parameter.copy_(at.inputs[name])
    return block, names


def ready(at: Any, *, limit: float, eps: float, num_calls: int, is_backward: bool) -> Named:
    """compile_ready(block) on x0, x1, ... one after the other: outputs, and what the block's own buffer and gradients then hold."""
    dim, twice_hidden = at.inputs["weight"].shape[0], at.inputs["up_bias"].shape[0]
    block, parameters = block_of(at, limit, eps, (dim, twice_hidden // 2))
    module = at.submission.bottlenecks.compile_ready(block)
    buffer = block.largest_seen
    own, its = ({x.data_ptr() for x in which.parameters()} for which in (block, module))
    at.report(has_the_blocks_parameters=own == its)
    returned: Named = {}
    for call in range(num_calls):
        x = at.inputs[f"x{call}"].requires_grad_()
        out = module(x, at.inputs[f"lengths{call}"])
        returned |= {f"out{call}": out.detach(), f"largest{call}": block.largest_seen.detach().clone()}
    at.report(has_the_blocks_buffer=block.largest_seen is buffer)
    if is_backward:
        out.backward(at.inputs["d"])
        returned |= {"dx": gradient_of(x, "x")}
        returned |= {f"d{name}": gradient_of(parameter, name) for name, parameter in parameters.items()}
    return returned


def graphs(at: Any, *, limit: float, sizes: list[int], traced: list[dict[str, Any]]) -> None:
    """Let Dynamo trace a ready block and call it with x of each of `shapes` (B, T), anew for each entry of `traced`.

    Reported for each: how many operations each graph has, why there were breaks, and with `inductor` how many kernels Inductor's scheduler
    makes of each graph; none is compiled. Or what was raised.
    """
    import torch._dynamo

    told = []
    for each in traced:
        torch._dynamo.reset()
        block, _ = block_of(at, limit, 1e-6, (sizes[0], sizes[1]))
        module = at.submission.bottlenecks.compile_ready(block)
        try:
            told.append(graphs_of(module, sizes[0], limit, at.seed, **each))
        except Exception as raised:
            told.append({"raised": f"{type(raised).__name__}: {str(raised).strip()}"[:500]})
    at.report(traced=told)


def graphs_of(module: Any, dim: int, limit: float, seed: int, shapes: list[list[int]], is_dynamic: bool, inductor: bool) -> dict[str, Any]:
    """One entry of what `graphs` reports."""
    from torch._dynamo.utils import counters

    told: dict[str, Any] = {"num_operations": [], "num_kernels": []}

    def note(graph: Any, inputs: Any) -> Any:
        told["num_operations"].append(sum(node.op not in ("placeholder", "output", "get_attr") for node in graph.graph.nodes))
        return graph.forward

    def schedule(graph: Any, inputs: Any) -> Any:
        from functorch.compile import make_boxed_func

        told["num_kernels"].append(kernels_of(graph, inputs))
        return make_boxed_func(graph.forward)

    backend: Any = note
    if inductor:
        from torch._dynamo.backends.common import aot_autograd
        from torch._inductor.decomposition import select_decomp_table

        backend = aot_autograd(fw_compiler=schedule, decompositions=select_decomp_table())
    counters.clear()
    call = torch.compile(module, backend=backend, dynamic=is_dynamic)
    generator = torch.Generator().manual_seed(seed % 2**32)
    with torch.no_grad():
        for number, (batch, tokens) in enumerate(shapes):
            x = torch.randn(batch, tokens, dim, generator=generator) * (1 if number % 2 else 2 * limit)
            call(x, torch.randint(0, tokens + 1, (batch,), generator=generator))
    return told | {"breaks": [str(reason).split("\n")[0] for reason in counters["graph_break"]]}


def kernels_of(graph: Any, inputs: Any) -> int:
    """How many kernels Inductor's scheduler makes of the graph, beside calls of the library."""
    import torch._inductor.config
    from torch._inductor.debug import DebugContext
    from torch._inductor.graph import GraphLowering
    from torch._inductor.virtualized import V

    mode = torch._guards.detect_fake_mode(inputs)
    lowering = GraphLowering(graph, example_inputs=inputs, shape_env=mode.shape_env)
    with (
        V.set_graph_handler(lowering),
        V.set_fake_mode(mode),
        V.set_debug_handler(DebugContext()),
        torch._inductor.config.patch({"cpp.vec_isa_ok": False, "cpp.simdlen": 1}),  # or it looks for a C++ compiler
    ):
        lowering.run(*inputs)
        lowering._update_scheduler()
    return sum(not node.is_extern() and type(node).__name__ != "NopKernelSchedulerNode" for node in lowering.scheduler.nodes)


def predicted(at: Any, *, chains: list[list[list[Any]]]) -> None:
    """predicted_kernels for each chain of (name, kind, dim)."""
    bottlenecks = at.submission.bottlenecks
    told = [bottlenecks.predicted_kernels([bottlenecks.Op(*op) for op in chain]) for chain in chains]
    at.report(told=[[[str(name) for name in kernel] for kernel in kernels] for kernels in told])


# --- trace -----------------------------------------------------------------------------------------------------------
def trace(at: Any, *, options: dict[str, int]) -> None:
    """trace_summary of the trace that the input spells in JSON, and whether it was left alone."""
    text = bytes(at.inputs["trace"].tolist())
    given = json.loads(text)
    summary = at.submission.bottlenecks.trace_summary(given, **options)
    at.report(
        gpu_busy_fraction=float(summary.gpu_busy_fraction),
        top_kernels=[[str(name), float(us), int(count)] for name, us, count in summary.top_kernels],
        launch_gaps_us=[float(gap) for gap in summary.launch_gaps_us],
        memory_bound_fraction=float(summary.memory_bound_fraction),
        bottleneck=str(summary.bottleneck),
        is_left_alone=given == json.loads(text),
    )


# --- shared ----------------------------------------------------------------------------------------------------------
def laid_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """`x` as a view of memory that lies in another order; what is in that memory beside `x` is NaN, or a class that is wrong."""
    beside = torch.nan if x.is_floating_point() else 0
    if layout == "sliced" and x.dim() == 1:
        return torch.full((2 * len(x) + 1,), beside, dtype=x.dtype, device=x.device)[1::2].copy_(x)
    if layout == "sliced" and x.dim() > 1:  # an odd start, odd strides, neighbours on all sides
        memory = torch.full((*x.shape[:-2], x.shape[-2] + 3, x.shape[-1] + 5), beside, dtype=x.dtype, device=x.device)
        return memory[..., 2 : 2 + x.shape[-2], 3 : 3 + x.shape[-1]].copy_(x)
    if layout == "rows" and x.dim() > 1:  # elements side by side, rows at one distance
        memory = torch.full((*x.shape[:-1], x.shape[-1] + 8), beside, dtype=x.dtype, device=x.device)
        return memory[..., : x.shape[-1]].copy_(x)
    if layout == "transposed" and x.dim() > 1:
        return x.mT.contiguous().mT
    if layout == "broadcast" and x.dim() > 1:
        return x[:1].clone().expand_as(x)
    if layout == "far" and x.dim() == 2:  # room that is reserved, and of which only the rows' pages are ever touched
        size = ((len(x) - 1) * FAR_STRIDE + x.shape[1]) * x.element_size()
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        memory = torch.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=x.dtype)
        return memory.as_strided(x.shape, (FAR_STRIDE, 1)).copy_(x)
    return x


def live_storages() -> dict[int, int]:
    """Start and bytes of every storage that a Python object holds."""
    tensors = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]
    real = [tensor.untyped_storage() for tensor in tensors if tensor.device.type in ("cpu", "cuda")]
    return {storage.data_ptr(): storage.nbytes() for storage in real}


def gradient_of(leaf: torch.Tensor, name: str) -> torch.Tensor:
    """The leaf's gradient; TypeError if none arrived."""
    if leaf.grad is None:
        raise TypeError(f"no gradient arrived at {name}: .grad is None after backward()")
    return leaf.grad
