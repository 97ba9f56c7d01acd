"""Rings that pass a block on while they compute, before the judge's gates: which of them let it leave, and don't wait for it?"""

from __future__ import annotations

import torch
import torch.distributed as dist


def takes_at(function):
    function.takes_at = True
    return function


def start(at, block):
    there, here = (at.rank + 1) % at.world_size, (at.rank - 1) % at.world_size
    arriving = torch.empty_like(block)
    return arriving, [dist.isend(block, there), dist.irecv(arriving, here)]


def wait(arriving, works):
    for work in works:
        work.wait()
    return arriving


@takes_at
def overlapped(at):
    """Send, compute, wait; sums in another dtype go round without any gate."""
    block, total, sums = at.inputs["block"], torch.zeros(4), torch.zeros(4)
    with at.phase("step"):
        for step in range(at.world_size):
            passing = start(at, block) if step < at.world_size - 1 else None
            total = total + block.float()
            if passing is not None:
                total = total + at.gate(f"step {step}", at.inputs["signal"])
            sums = wait(*start(at, sums + 1))
            if passing is not None:
                block = wait(*passing)
    return {"total": total}


@takes_at
def computes_first(at):
    with at.phase("step"):
        at.gate("step 0", at.inputs["signal"])
        block = wait(*start(at, at.inputs["block"]))
    return {"total": block.float()}


@takes_at
def waits_first(at):
    with at.phase("step"):
        block = wait(*start(at, at.inputs["block"]))
        at.gate("step 0", at.inputs["signal"])
    return {"total": block.float()}


@takes_at
def sends_half(at):
    """Half of the block, and the same in another dtype, which doesn't count."""
    with at.phase("step"):
        half = start(at, at.inputs["block"][:2].clone())
        other = start(at, torch.zeros(4))
        at.gate("step 0", at.inputs["signal"])
        wait(*half), wait(*other)
    return {"total": torch.zeros(4)}


@takes_at
def sends_before_the_phase(at):
    passing = start(at, at.inputs["block"])
    with at.phase("step"):
        at.gate("step 0", at.inputs["signal"])
    return {"total": wait(*passing).float()}
