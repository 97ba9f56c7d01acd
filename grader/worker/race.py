"""A racer's turns: the judge says "go" with the calls to make, the racer makes them and says "done". Facts only.

All of this runs beside the code that is timed, which may change any of it. So nothing here decides anything: the judge's clock runs from
his "go" until the keeper, another process, holds what he will look at; the inputs come with "go", and lie in the keeper's memory, as do
the outputs. The clock in here is a second witness, and no more.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from grader.records import Json
from grader.worker import lanes

if TYPE_CHECKING:
    from grader.worker.context import Context
    from grader.worker.line import Line

Views = dict[str, torch.Tensor]
Call = Callable[[Views, Views], None]
HAND_OVER = "hand over"  # the entrant that only copies an output of its own into the keeper's memory


def taking_turns(entrant: Callable[..., Call], line: Line) -> Callable[..., None]:
    """A probe that prepares `entrant` and answers the judge's turns until he has had enough."""

    def probe(at: Context, **parameters: Json) -> None:
        torch.set_grad_enabled(True)
        inputs, outputs = (lanes.opened(told, at.device) for told in json.loads(bytes(line.ask("race", say="ready")))["memory"])
        calls = {"": entrant(at, **parameters), HAND_OVER: _hand_over(outputs)}
        slots = [tuple({name: tensor[slot] for name, tensor in each.items()} for each in (inputs, outputs)) for slot in range(_num(inputs))]
        gc.collect()
        gc.disable()  # a collection in one window and not in the next would be noise
        said: dict[str, Json] = {"say": "prepared"}
        while turn := json.loads(bytes(line.ask("race", **said))):
            said = {"say": "done", "testified_s": _window(calls[turn["entrant"]], [slots[slot] for slot in turn["order"]], at.device)}
        gc.enable()

    return probe


def _window(call: Call, slots: list[Any], device: torch.device) -> float:
    """Make the calls, wait for the device; what this process's own clock says of it, in seconds."""
    if device.type != "cuda":
        began_ns = time.process_time_ns()  # the judge's clock is this process's CPU clock, too, where the host plays the device
        for inputs, outputs in slots:
            call(inputs, outputs)
        return (time.process_time_ns() - began_ns) / 1e9
    began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    began.record()
    for inputs, outputs in slots:
        call(inputs, outputs)
    ended.record()
    torch.cuda.synchronize(device)
    return float(began.elapsed_time(ended)) / 1e3


def _num(inputs: Views) -> int:
    return len(next(iter(inputs.values())))


def _hand_over(outputs: Views) -> Call:
    """What every call pays for leaving its outputs where the judge can look at them: the judge takes it off again."""
    own = {name: torch.zeros_like(tensor[0]) for name, tensor in outputs.items()}

    def call(_: Views, into: Views) -> None:
        for name, tensor in own.items():
            into[name].copy_(tensor)

    return call
