"""Dishonest submissions for races on a GPU: code behind the solution of an assignment, which it may call. `must` is how its race may end.

    refused   no marks, whatever the time
    honest    it does the work and gains nothing by the trick: no faster than the solution, within noise
    no marks  refused, inconclusive, or too slow for any
What the host can play as well is in tests/grader/races/test_race.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cheat:
    """A trick, and how it may end."""

    name: str
    must: str
    code: str
    race: str = "flash_attention.forward"
    file: str = "flash_attention.py"  # what it stands behind


HONEST = """
import sys, threading, time
_honest = flash_attention

def _windows_locals():
    frame = sys._getframe(1)
    while frame is not None and "slots" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals if frame else {}

def _outputs_of_this_call():
    frame = sys._getframe(1)
    while frame is not None and "outputs" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["outputs"]
"""

TRICKS = {
    "answers_by_address": ("refused", """
seen = {}
def flash_attention(q, k, v, **options):
    if q.data_ptr() not in seen:
        seen[q.data_ptr()] = _honest(q, k, v, **options)
    return seen[q.data_ptr()]
"""),
    "zeros": ("refused", "def flash_attention(q, k, v, **options):\n    return torch.zeros_like(q)\n"),
    "memory_that_others_freed": ("refused", "def flash_attention(q, k, v, **options):\n    return torch.empty_like(q)\n"),
    "as_precise_as_float8": ("refused", """
def flash_attention(q, k, v, **options):
    q, k, v = (each.to(torch.float8_e4m3fn).to(each.dtype) for each in (q, k, v))
    return _honest(q, k, v, **options)
"""),
    "forgets_old_keys": ("refused", """
def flash_attention(q, k, v, **options):
    half = q.shape[-2] // 2
    return torch.cat([_honest(q[..., at : at + half, :], k[..., at : at + half, :], v[..., at : at + half, :], **options)
                      for at in (0, half)], -2)
"""),
    "every_second_call": ("refused", """
seen = [0, None]
def flash_attention(q, k, v, **options):
    seen[0] += 1
    if seen[0] % 2:
        seen[1] = _honest(q, k, v, **options)
    return seen[1]
"""),
    "honest_at_first": ("refused", """
calls = [0, None]
def flash_attention(q, k, v, **options):
    calls[0] += 1
    if calls[0] < 400:
        calls[1] = _honest(q, k, v, **options)
    return calls[1]
"""),
    "on_another_stream": ("refused", """
aside = torch.cuda.Stream()
def flash_attention(q, k, v, **options):
    with torch.cuda.stream(aside):
        return _honest(q, k, v, **options)
"""),
    "done_before_it_is": ("no marks", """
torch.cuda.synchronize = lambda *device: None
torch.cuda.Event.elapsed_time = lambda self, other: 1e-3
"""),
    "writes_late_from_another_stream": ("no marks", """
aside = torch.cuda.Stream()
torch.cuda.synchronize = lambda *device: None
torch.cuda.Event.elapsed_time = lambda self, other: 1e-3
class _Nothing:
    pass
def flash_attention(q, k, v, **options):
    o = _outputs_of_this_call()["o"]
    with torch.cuda.stream(aside):
        o.copy_(_honest(q, k, v, **options))
    return o
"""),
    "later_on_a_thread": ("refused", """
def flash_attention(q, k, v, **options):
    o = torch.empty_like(q)
    threading.Thread(target=lambda: (time.sleep(0.01), o.copy_(_honest(q, k, v, **options)))).start()
    return o
"""),
    "a_tensor_that_is_none": ("refused", """
class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return args[0] if args else None
def flash_attention(q, k, v, **options):
    return q.as_subclass(Lazy)
"""),
    "a_graph_with_yesterdays_inputs": ("refused", """
graph = []
def flash_attention(q, k, v, **options):
    if not graph:
        static = [each.clone() for each in (q, k, v)]
        _honest(*static, **options)
        torch.cuda.synchronize()
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            graph.append(_honest(*static, **options))
        graph.append(recorded)
    graph[1].replay()
    return graph[0]
"""),
    "a_graph_with_todays_inputs": ("honest", """
graph = []
def flash_attention(q, k, v, **options):
    if not graph:
        static = [each.clone() for each in (q, k, v)]
        _honest(*static, **options)
        torch.cuda.synchronize()
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            o = _honest(*static, **options)
        graph.extend([o, recorded, static])
    for own, given in zip(graph[2], (q, k, v)):
        own.copy_(given)
    graph[1].replay()
    return graph[0]
"""),
    "all_calls_in_the_first": ("honest", """
done = {}
def flash_attention(q, k, v, **options):
    slots = _windows_locals()["slots"]
    if done.get("window") is not slots:
        done["window"] = slots
        for each, into in slots:
            into["o"].copy_(_honest(each["q"], each["k"], each["v"], **options))
    return _outputs_of_this_call()["o"]
"""),
    "straight_into_the_keepers_memory": ("honest", """
_empty_like = torch.empty_like
def flash_attention(q, k, v, **options):
    o = _outputs_of_this_call()["o"]
    torch.empty_like = lambda like, **rest: o if like.shape == o.shape and not rest else _empty_like(like, **rest)
    try:
        return _honest(q, k, v, **options)
    finally:
        torch.empty_like = _empty_like
"""),
    "persisting_l2": ("honest", """
import ctypes
_runtime = ctypes.CDLL(None)
if hasattr(_runtime, "cudaDeviceSetLimit"):
    _runtime.cudaDeviceSetLimit(6, ctypes.c_size_t(16 << 20))
    _runtime.cudaGetLastError()  # a device that has none of it: torch would take the error for its own
"""),
    "slows_the_others": ("no marks", """
aside = torch.cuda.Stream()
load = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)
_synchronize = torch.cuda.synchronize
def _wait_for_mine(*device):
    torch.cuda.current_stream().synchronize()
torch.cuda.synchronize = _wait_for_mine
calls = [0]
def flash_attention(q, k, v, **options):
    calls[0] += 1
    if calls[0] % 16 == 0:
        with torch.cuda.stream(aside):
            for _ in range(60):
                load @ load
    return _honest(q, k, v, **options)
"""),
    "takes_all_memory": ("honest", """
held = []
def flash_attention(q, k, v, **options):
    if not held:
        held.append(torch.empty(int(torch.cuda.mem_get_info()[0] * 0.97), dtype=torch.uint8, device="cuda"))
    return _honest(q, k, v, **options)
"""),
    "varies": ("no marks", """
import random
def flash_attention(q, k, v, **options):
    if random.random() < 0.05:
        time.sleep(0.03)
    return _honest(q, k, v, **options)
"""),
    "hangs": ("refused", "def flash_attention(q, k, v, **options):\n    time.sleep(1000)\n"),
    "the_library_by_its_private_name": ("known to pass", """
def flash_attention(q, k, v, causal=False, **options):
    return torch._C._nn.scaled_dot_product_attention(q, k, v, is_causal=causal)
"""),
}  # fmt: skip
# Two ranks. What is synchronised is the gradient, in `finish_gradient_synchronization` and in the hooks that lead to it.
OF_RANKS = {
    "no_communication_at_all": ("refused", """
class DistributedDataParallel(nn.Module):
    def __init__(self, module, *rest, **options):
        super().__init__()
        self.module = module
    def forward(self, x):
        return self.module(x)
    def finish_gradient_synchronization(self):
        pass
"""),
    "communicates_in_every_third_call": ("refused", """
class DistributedDataParallel(DistributedDataParallel):
    number = 0
    def forward(self, x):
        self.number += 1
        self.is_synchronizing = self.number % 3 == 0
        return super().forward(x)
    def finish_gradient_synchronization(self):
        if self.is_synchronizing:
            super().finish_gradient_synchronization()
"""),
    "sends_half_of_each_number": ("refused", """
_all_reduce = dist.all_reduce
def _halved(tensor, *rest, async_op=False, **options):
    short = tensor.bfloat16()
    _all_reduce(short, *rest, **options)
    tensor.copy_(short)
    class Done:
        def wait(self): pass
    return Done()
dist.all_reduce = _halved
"""),
    "does_not_wait_for_what_it_sends": ("no marks", """
class DistributedDataParallel(DistributedDataParallel):
    def finish_gradient_synchronization(self):
        class Done:
            def wait(self): pass
        for bucket in self.buckets:
            bucket.kept = bucket.work
            bucket.work = Done()
        super().finish_gradient_synchronization()
"""),
    "one_rank_says_done_and_leaves": ("refused", """
import os
class DistributedDataParallel(DistributedDataParallel):
    def finish_gradient_synchronization(self):
        super().finish_gradient_synchronization()
        if dist.get_rank() == 1:
            os._exit(0)
"""),
    "takes_the_way_that_is_closed": ("honest", """
import os
os.environ.pop("NCCL_P2P_DISABLE", None)
_own = []
class DistributedDataParallel(DistributedDataParallel):
    def __init__(self, module, *rest, **options):
        super().__init__(module, dist.new_group(backend="nccl" if next(module.parameters()).is_cuda else "gloo"), **options)
"""),
}  # fmt: skip
CHEATS = tuple(
    [Cheat(name, must, HONEST + code) for name, (must, code) in TRICKS.items()]
    + [Cheat(name, must, code, "data_parallel.step", "data_parallel.py") for name, (must, code) in OF_RANKS.items()]
)
