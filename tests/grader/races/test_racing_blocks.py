"""What races of several ranks compare with: rows by a few products, beside torch's autograd on the whole model."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from grader.worker.keeper import Keeper
from grader.worker.racing_blocks import Blocks

SHAPE = {"blocks": 3, "batch": 5, "width": 8, "hidden": 12}
WORLD_SIZE = 2


def keeper_of(assignment: str) -> ModuleType:
    """tests/races/<assignment>/keeper.py."""
    path = Path(__file__).parents[2] / "races" / assignment / "keeper.py"
    spec = importlib.util.spec_from_file_location(f"keeper_of_{assignment}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made(track: Any, inputs: Any) -> list[Any]:
    """The inputs of every rank, as the keepers make them."""
    ranks = []
    for rank in range(WORLD_SIZE):
        ranks.append({name: torch.empty(shape) for name, (_, shape) in inputs.items()})
        filler = Keeper.__new__(Keeper)
        filler.track, filler._world_size, filler._generator = track, WORLD_SIZE, torch.Generator()
        filler._make(ranks[-1], 7, rank)
    return ranks


def whole_gradients(inputs: list[Any], joined: Any, *, is_mean: bool) -> tuple[list[Any], list[Any], dict[str, torch.Tensor]]:
    """y and dx of each rank, and the whole gradients, by autograd in float64."""
    module = Blocks(SHAPE["blocks"], SHAPE["width"], SHAPE["hidden"]).double()
    with torch.no_grad():
        for number, block in enumerate(module.blocks):
            for name in ("up", "down"):
                getattr(block, name).weight.copy_(joined(name, [each[name][number] for each in inputs]))
    ys, dxs = [], []
    for each in inputs if is_mean else inputs[:1]:
        x = each["x"].double().requires_grad_()
        y = module(x)
        y.backward(each["dy"].double() / (len(inputs) if is_mean else 1))
        ys.append(y.detach())
        dxs.append(x.grad * (len(inputs) if is_mean else 1))
    gradients = {f"d{name}": torch.stack([getattr(block, name).weight.grad for block in module.blocks]) for name in ("up", "down")}
    return ys, dxs, gradients


@pytest.mark.parametrize(("assignment", "axes"), [("data_parallel", ()), ("sharded_data_parallel", (1, 1)), ("tensor_parallel", (1, 2))])
def test_rows_are_those_of_the_whole_gradient(assignment: str, axes: tuple[int, ...]) -> None:
    """Of each rank: y, dx and its part of both gradients, wherever is looked; in float64 exactly, in float32 nearly."""
    tracks = [keeper_of(assignment).step(torch.device("cpu"), **SHAPE, rank=rank, world_size=WORLD_SIZE) for rank in range(WORLD_SIZE)]
    inputs = made(tracks[0], tracks[0].inputs)
    ys, dxs, gradients = whole_gradients(inputs, tracks[0].joined, is_mean=assignment != "tensor_parallel")
    for rank, track in enumerate(tracks):
        parts = [whole.chunk(WORLD_SIZE, axis)[rank] for whole, axis in zip(gradients.values(), axes, strict=True)] if axes else None
        dup, ddown = parts if parts is not None else gradients.values()
        outputs = {"y": ys[rank % len(ys)], "dx": dxs[rank % len(dxs)], "dup": dup, "ddown": ddown}
        assert {name: tuple(tensor.shape) for name, tensor in outputs.items()} == {name: spec[1] for name, spec in track.outputs.items()}
        for seed in range(5):
            places = track.places(torch.Generator().manual_seed(seed))
            seen, exact, plain = track.taken(outputs, places), track.exact(inputs, places), track.plain(inputs, places)
            for name, tensor in seen.items():
                torch.testing.assert_close(tensor, exact[name], rtol=1e-12, atol=1e-12)
                torch.testing.assert_close(tensor.float(), plain[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("assignment", "same"), [("data_parallel", {"up", "down"}), ("sharded_data_parallel", set()), ("tensor_parallel", {"x", "dy"})]
)
def test_no_rank_knows_what_another_has_to_send(assignment: str, same: set[str]) -> None:
    """Samples differ where gradients are averaged, parts of weights where sums or weights travel; the rest is equal everywhere."""
    track = keeper_of(assignment).step(torch.device("cpu"), **SHAPE, rank=0, world_size=WORLD_SIZE)
    first, second = made(track, track.inputs)
    assert {name for name in first if torch.equal(first[name], second[name])} == same


@pytest.mark.parametrize(
    ("assignment", "messages"),
    [("data_parallel", 3 * 2 * 8 * 12), ("sharded_data_parallel", 3 * 2 * 8 * 12), ("tensor_parallel", 2 * 5 * 8)],
)
def test_floors_count_what_a_rank_sends(assignment: str, messages: int) -> None:
    """On two ranks a ring sends as many numbers as the message has: gradients; a gather and a scatter of weights; y and dx."""
    track = keeper_of(assignment).step(torch.device("cpu"), **SHAPE, rank=0, world_size=WORLD_SIZE)
    assert track.sent_bytes == 4 * messages
    assert track.flops == 6 * 5 * 3 * 2 * 8 * 12 / (2 if assignment == "tensor_parallel" else 1)
