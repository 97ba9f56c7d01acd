"""The keeper of a race: owns the memory in which inputs come and outputs are left, and looks at them. It never sees a submission.

A file tests/races/<assignment>/keeper.py has a class for each track, made with `device` and the race's parameters:

    inputs, outputs   name -> (dtype, shape): of one call
    moved_bytes       that a call must read and write at least, handing over aside
    flops             that it must do at least, and `precision`, the dtype in which they may be done
    fill(inputs, generator)                  values for one call, the same whenever the generator has the same seed
    places(generator) -> places              on the device: where in a call's outputs to look
    exact(inputs, places) -> samples         what must be there: name -> tensor, in a higher precision
    plain(inputs, places) -> samples         what a plain implementation in the inputs' own dtypes has there
    taken(outputs, places) -> samples        what is there
    least_error       name -> relative error, granted where a plain implementation's is smaller; without it, 0
    most_calls        of a window, where calls are long; without it, as many as fit

In a race of several ranks there is a keeper beside each, and the track is also made with `rank` and `world_size`. It has three things more:

    shared       names of inputs that are the same on every rank; without it, all are
    sent_bytes   that one rank must send at least
    exact and plain get a list in place of `inputs`: those of every rank, which any keeper can make

Nothing of this is an opinion: errors go to the judge as numbers, the plain implementation's beside the racer's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from grader.records import GiB, Json, MiB
from grader.worker import lanes

if TYPE_CHECKING:
    from grader.worker.context import Context
    from grader.worker.line import Line

LANE = ("inputs", "outputs")
SHARE = 0.3  # of the device's free memory for each lane; two lanes, and room for what racers allocate
HOST_BYTES = 24 * MiB  # of a lane where the host plays a GPU
NUM_SLOTS_LIMIT = 512
PEAK_BYTES = {"cuda": GiB, "cpu": 32 * MiB}
PEAK_EXTENT = {"cuda": 8192, "cpu": 512}
LINK_BYTES = {"cuda": 128 * MiB, "cpu": MiB}
NUM_PEAK_TIMES = 7


def keeping(make_track: Callable[..., Any], line: Line) -> Callable[..., None]:
    """A probe that keeps the lanes of a race until the judge has had enough."""

    def probe(at: Context, **parameters: Json) -> None:
        whose: dict[str, Json] = {"rank": at.rank, "world_size": at.world_size} if at.world_size > 1 else {}
        keeper = Keeper(make_track(at.device, **parameters, **whose), at.device, at.rank, at.world_size)
        said: dict[str, Json] = {"say": "ready", "slots": keeper.num_slots, "memory": keeper.told}
        while wanted := json.loads(bytes(line.ask("race", **said))):
            if wanted["do"] == "look":  # the racer's time ends when the samples are in our own memory
                samples = keeper.take()
                is_compared = json.loads(bytes(line.ask("race", say="taken")))["compare"]
                said = {"say": "seen", "errors": keeper.errors(samples) if is_compared else []}
            elif wanted["do"] == "fill":
                keeper.fill(wanted["lane"], wanted["calls"], wanted["looks"], wanted["seed"])
                said = {"say": "filled"}
            else:
                said = {"say": "peaks", **keeper.peaks()}

    return probe


class Keeper:
    """Two lanes of one track, of one rank."""

    def __init__(self, track: Any, device: torch.device, rank: int, world_size: int) -> None:
        self.track, self.device, self._rank, self._world_size = track, device, rank, world_size
        per_slot = lanes.slot_bytes(track.inputs) + lanes.slot_bytes(track.outputs)
        room = SHARE * torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else HOST_BYTES
        self.num_slots = max(1, min(getattr(track, "most_calls", NUM_SLOTS_LIMIT), int(room // per_slot)))
        self._lanes = [
            {what: lanes.made(f"{rank}-{number}-{what}", getattr(track, what), self.num_slots, device) for what in LANE}
            for number in range(2)
        ]
        self.told = [  # for the peer, for its twin, and for the submission, which follows the twin
            [lanes.told_of(f"{rank}-{number}-{what}", self._lanes[number][what]) for what in LANE] for number in (0, 1, 1)
        ]
        self._own = [  # inputs are made a second time, here, before they are believed: the racer may have written to its own
            {name: torch.empty(shape, dtype=getattr(torch, dtype), device=device) for name, (dtype, shape) in track.inputs.items()}
            for _ in range(world_size)
        ]
        self._generator = torch.Generator(device)
        self._looks: list[tuple[int, int, Any]] = []  # slot, seed of its inputs, places

    def fill(self, lane: int, num_calls: int, num_looks: int, seed: int) -> None:
        """Fresh inputs in the first `num_calls` slots, NaN in all their outputs; draw where to look."""
        inputs, outputs = (self._lanes[lane][what] for what in LANE)
        self._lane = lane
        for slot in range(num_calls):
            self._make({name: tensor[slot] for name, tensor in inputs.items()}, seed + slot, self._rank)
        for tensor in outputs.values():
            tensor[:num_calls].fill_(torch.nan)
        host = torch.Generator().manual_seed(seed)
        chosen = torch.randperm(num_calls, generator=host)[:num_looks].tolist()
        self._looks = [(slot, seed + slot, self.track.places(host)) for slot in chosen]
        self._finish()

    def _make(self, inputs: dict[str, torch.Tensor], seed: int, rank: int) -> None:
        """One rank's inputs of one call: what all ranks share has one seed, the rest one for each."""
        shared = getattr(self.track, "shared", tuple(inputs))
        for number, is_shared in ((0, True), (1 + rank, False)):
            some = {name: tensor for name, tensor in inputs.items() if (name in shared) == is_shared}
            if some:
                self.track.fill(some, self._generator.manual_seed(seed * (1 + self._world_size) + number))

    def take(self) -> list[dict[str, torch.Tensor]]:
        """Copies of what is at the places now."""
        outputs = self._lanes[self._lane]["outputs"]
        samples = [self.track.taken({name: tensor[slot] for name, tensor in outputs.items()}, places) for slot, _, places in self._looks]
        self._finish()
        return samples

    def errors(self, samples: list[dict[str, torch.Tensor]]) -> list[Json]:
        """Of each sample: [slot, name, its error, the plain implementation's], each as [relative to the norm, worst over largest]."""
        found: list[Json] = []
        for (slot, seed, places), sample in zip(self._looks, samples, strict=True):
            for rank, own in enumerate(self._own):
                self._make(own, seed, rank)
            given = self._own if self._world_size > 1 else self._own[0]
            exact, plain = self.track.exact(given, places), self.track.plain(given, places)
            found += [[slot, name, _errors(sample[name], exact[name]), self._granted(name, plain[name], exact[name])] for name in exact]
        return found

    def _granted(self, name: str, plain: torch.Tensor, exact: torch.Tensor) -> list[float | None]:
        """The plain implementation's error, or the track's `least_error` of that output: a single number may be right by luck."""
        least = getattr(self.track, "least_error", {}).get(name, 0.0)
        return [error if error is None else max(error, least) for error in _errors(plain, exact)]

    def peaks(self) -> dict[str, Json]:
        """What this device has been seen to do: bytes of a copy and FLOPs of a product, per second, at the best of some times."""
        kind = self.device.type
        source = torch.empty(PEAK_BYTES[kind], dtype=torch.uint8, device=self.device).fill_(1)
        target = torch.empty_like(source)
        extent = PEAK_EXTENT[kind]
        a = torch.randn(extent, extent, device=self.device).to(getattr(torch, self.track.precision))
        copied_s, product_s = self._best(lambda: target.copy_(source)), self._best(lambda: a @ a)
        told: dict[str, Json] = {"bytes_per_s": 2 * source.numel() / copied_s, "flops_per_s": 2 * extent**3 / product_s,
                                 "moved_bytes": self.track.moved_bytes, "flops": self.track.flops}  # fmt: skip
        if self._world_size > 1:
            message = source[: LINK_BYTES[kind]]
            ring = 2 * (self._world_size - 1) / self._world_size
            sent_s = self._best(lambda: torch.distributed.all_reduce(message))
            told |= {"link_bytes_per_s": ring * message.numel() / sent_s, "sent_bytes": self.track.sent_bytes}
        return told

    def _best(self, step: Callable[[], Any]) -> float:
        times = []
        for _ in range(NUM_PEAK_TIMES):
            self._finish()
            began_ns = time.perf_counter_ns()
            step()
            self._finish()
            times.append(time.perf_counter_ns() - began_ns)
        return min(times) / 1e9

    def _finish(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _errors(seen: torch.Tensor, exact: torch.Tensor) -> list[float | None]:
    """‖seen − exact‖ / ‖exact‖, and the largest difference over the largest value; None where a number is not finite."""
    if not torch.isfinite(seen).all():
        return [None, None]
    difference = seen.to(exact.dtype) - exact
    return [float(difference.norm() / exact.norm().clamp(min=1e-30)), float(difference.abs().max() / exact.abs().max().clamp(min=1e-30))]
