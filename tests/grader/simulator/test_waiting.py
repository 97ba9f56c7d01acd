"""The host's time for a kernel, which a cluster whose host waits is given: a measured step over its kernels, and nothing else."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from grader.simulator import dgx_a100, jean_zay
from grader.simulator.clusters import HOST_S
from lm.gpt import GPT, PRESETS
from tests.grader.simulator.validation import RESULTS


class Kernels(TorchDispatchMode):
    """Counts the operations that make something; a view of what was there is none."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        given = {at(tensor) for tensor in tree_leaves((args, kwargs)) if isinstance(tensor, torch.Tensor)}
        self.count += any(at(tensor) not in given for tensor in tree_leaves(made) if isinstance(tensor, torch.Tensor))
        return made


def at(tensor: torch.Tensor) -> int:
    """Where its numbers lie."""
    return tensor.untyped_storage().data_ptr()


def kernels_of(num_layers: int) -> int:
    """Of a forward and backward in mixed precision, as data_parallel_speed.py times it; sizes don't matter."""
    preset = dataclasses.replace(PRESETS["gpt2-355m"], num_layers=num_layers, vocab_size=64, hidden_size=64, mlp_size=64, max_tokens=8)
    gpt, tokens = GPT(preset), torch.zeros(1, 8, dtype=torch.long)
    with Kernels() as seen:
        with torch.autocast("cpu", torch.bfloat16):
            loss = gpt(tokens, tokens)
        loss.backward()
    return seen.count


def test_the_hosts_time_is_a_measured_step_over_its_kernels() -> None:
    """The optimizer's few fused kernels aside; two models that differ by a layer say what a layer has."""
    one, two = kernels_of(1), kernels_of(2)
    measured = json.loads((RESULTS / "data_parallel_h200x2.json").read_text("utf-8"))["shapes"]["eager, one channel"]
    assert (measured["sequences_per_gpu"], measured["compiled"]) == (2, False)
    assert pytest.approx(measured["step_ms"]["alone"][0] / 1e3 / (one + 23 * (two - one))) == HOST_S


def test_only_where_the_host_waited_it_costs() -> None:
    """Jean Zay's cluster has it, a DGX has none."""
    assert (jean_zay(1).launch_s, dgx_a100(1).launch_s) == (HOST_S, 0.0)
