"""Data-parallel programs in front of the judge's gates: which of them let gradients leave while backward runs?"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

LAYERS = ("w0", "w1", "w2", "w3", "w4", "w5")
GATES = {"w4": "before w4", "w2": "before w2"}  # below which layer's output a gate stands


def takes_at(function):
    function.takes_at = True
    return function


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, at, name):
        ctx.at, ctx.name = at, name
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient + ctx.at.gate(ctx.name, gradient), None, None


class Stack(nn.Module):
    """Each layer adds the column sums of parameter times input; so a parameter's gradient is its input times the signal."""

    def __init__(self, at):
        super().__init__()
        self.at, self.is_gated = at, True
        for name in LAYERS:
            self.register_parameter(name, nn.Parameter(torch.zeros_like(at.inputs[name])))

    def forward(self):
        flow = torch.zeros_like(self.at.inputs["signal"], requires_grad=True)
        for name in LAYERS:
            flow = flow + (getattr(self, name) * self.at.inputs[name]).sum(0)
            if self.is_gated and name in GATES:
                flow = Gate.apply(flow, self.at, GATES[name])
        return (flow * self.at.inputs["signal"]).sum()


def backward(at, model):
    with at.phase("step"):
        model().backward()


def on_each(model, hook):
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(hook)


def finished(at, works, parameters):
    for work in works:
        work.wait()
    return {name: parameter.grad / at.world_size for name, parameter in zip(LAYERS, parameters, strict=True)}


@takes_at
def overlapped(at):
    model, works = Stack(at), []
    on_each(model, lambda p: works.append(dist.all_reduce(p.grad, async_op=True)))
    backward(at, model)
    return finished(at, works, model.parameters())


@takes_at
def divided_first(at):
    model, works = Stack(at), []
    on_each(model, lambda p: works.append(dist.all_reduce(p.grad.div_(at.world_size), async_op=True)))
    backward(at, model)
    return {name: mean * at.world_size for name, mean in finished(at, works, model.parameters()).items()}


@takes_at
def scattered(at):
    """One reduce-scatter per layer, of parts that the gradient doesn't fill."""
    model, works = Stack(at), []

    def leave(parameter):
        size = -(-parameter.numel() // at.world_size)
        padded = torch.zeros(size * at.world_size)
        padded[: parameter.numel()] = parameter.grad.flatten()
        works.append(dist.reduce_scatter(torch.empty(size), list(padded.split(size)), async_op=True))

    on_each(model, leave)
    backward(at, model)
    return finished(at, works, model.parameters())


@takes_at
def torch_data_parallel(at):
    """Torch's own, one layer per bucket from its second step on."""
    model = Stack(at)
    ddp = DistributedDataParallel(model, bucket_cap_mb=at.inputs["w0"].numel() * 4 / 2**20)
    model.is_gated = False
    ddp().backward()
    model.zero_grad()
    model.is_gated = True
    backward(at, ddp)
    return {name: parameter.grad for name, parameter in zip(LAYERS, model.parameters(), strict=True)}


@takes_at
def flat(at):
    model = Stack(at)
    with at.phase("step"):
        model().backward()
        works = [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]
    return finished(at, works, model.parameters())


@takes_at
def blocking(at):
    model = Stack(at)
    on_each(model, lambda p: dist.all_reduce(p.grad))
    backward(at, model)
    return finished(at, [], model.parameters())


@takes_at
def dummies(at):
    """Sends as often as it should, before it has anything to send."""
    model = Stack(at)
    with at.phase("step"):
        works = [dist.all_reduce(torch.zeros_like(p), async_op=True) for p in model.parameters()]
        model().backward()
    return finished(at, works, model.parameters())


@takes_at
def scaled(at):
    model, works = Stack(at), []
    on_each(model, lambda p: works.append(dist.all_reduce(1.01 * p.grad, async_op=True)))
    backward(at, model)
    return finished(at, works, model.parameters())


@takes_at
def one_layer_late(at):
    model, works, kept = Stack(at), [], []

    def leave_the_one_before(parameter):
        kept.append(parameter)
        if len(kept) > 1:
            works.append(dist.all_reduce(kept[-2].grad, async_op=True))

    on_each(model, leave_the_one_before)
    backward(at, model)
    return finished(at, works, model.parameters())


@takes_at
def guesses(at):
    """Computes everything without the judge's numbers, and sends that first."""
    model = Stack(at)
    model.is_gated = False
    with at.phase("step"):
        model().backward()
        works = [dist.all_reduce(p.grad, async_op=True) for p in reversed(list(model.parameters()))]
        for name in reversed(GATES.values()):
            at.gate(name, at.inputs["signal"])
    return finished(at, works, model.parameters())
