"""Checkpoints whose ranks die in the middle of a save."""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .surroundings import plain, shared_folder
from .toys import Trainer, filled

REAL_SAVE = torch.save


def killed(at: Any, *, max_deaths: int, victims: list[int]) -> dict[str, Tensor]:
    """Saves version after version; of each victim, one save is killed at each thing that it does to the disk, then what is there is loaded.

    Rows: (rank that dies, place, it did die, version before, version that was being saved, smallest and largest number loaded). Versions
    are inputs; all weights and moments of a version are the number.
    """
    checkpoints, versions = at.submission.sharded_checkpoint, iter(at.inputs["versions"].tolist())
    folder = shared_folder() / "checkpoints" / "latest"
    deaths, rows, errors = Deaths(), [], []
    before = next(versions)
    trainer = filled(at, before)
    checkpoints.save_sharded(folder, trainer.wrapped, trainer.optimizer, barrier=dist.barrier)
    notes = [folder / "notes.txt", folder / "figures" / "notes.txt"]
    for note in notes:
        note.parent.mkdir(exist_ok=True)
        note.write_text("of somebody else")
    for victim in victims:
        for place in range(max_deaths):
            version = next(versions)
            deaths.arm(place if at.rank == victim else -1)
            died = save_until_death(at, deaths, folder, filled(at, version), checkpoints)
            lowest, highest = float("nan"), float("nan")
            try:
                loaded = filled(at, -1.0)
                checkpoints.load_sharded(folder, loaded.wrapped, loaded.optimizer)
                lowest, highest = extent(loaded)
            except Exception as raised:  # a fact: nothing could be loaded
                errors.append(f"{type(raised).__name__}: {raised}"[:200])
            rows.append([victim, place, float(died), before, version, lowest, highest])
            dist.barrier()
            before = next(versions)  # and after that a save in peace
            trainer = filled(at, before)
            checkpoints.save_sharded(folder, trainer.wrapped, trainer.optimizer, barrier=dist.barrier)
            loaded = filled(at, -1.0)
            checkpoints.load_sharded(folder, loaded.wrapped, loaded.optimizer)
            rows.append([victim, place, 0.0, before, before, *extent(loaded)])
            dist.barrier()
            if not died:
                break
    missing = filled(at, -1.0)
    try:
        checkpoints.load_sharded(folder.parent / "nothing", missing.wrapped, missing.optimizer)
        errors.append("nothing raised")
    except Exception as raised:
        at.report(without_checkpoint=type(raised).__name__)
    at.report(errors=errors[:5], num_rows=len(rows), is_note_there=all(note.exists() for note in notes))
    table = torch.zeros(2 * max_deaths * len(victims), 7, dtype=torch.float64)
    table[: len(rows)] = torch.tensor(rows, dtype=torch.float64)
    return {"rows": table}


def save_until_death(at: Any, deaths: Deaths, folder: Path, trainer: Trainer, checkpoints: Any) -> bool:
    """One save in which a rank may die, and with it those that wait for it. Returns whether one did; True on all ranks or on none."""
    someone_died = False

    def meet(is_dead: bool) -> bool:
        flag = torch.tensor([float(is_dead)])
        dist.all_reduce(flag)
        return bool(flag.item())

    def barrier() -> None:
        nonlocal someone_died
        if deaths.is_dead:
            raise Killed
        if meet(False):
            someone_died = True
            raise Killed

    with deaths.listening(), contextlib.suppress(Killed):
        checkpoints.save_sharded(folder, trainer.wrapped, trainer.optimizer, barrier=barrier)
    return someone_died or meet(deaths.is_dead)


def extent(trainer: Trainer) -> tuple[float, float]:
    """The smallest and the largest of this rank's weights and momenta."""
    shards = trainer.wrapped.named_shards().values()
    pieces = [plain(each.data).reshape(-1) for each in shards]
    pieces += [plain(trainer.optimizer.state[each]["momentum_buffer"]).reshape(-1) for each in shards]
    numbers = torch.cat(pieces)
    return (float(numbers.min()), float(numbers.max())) if numbers.numel() else (-1.0, -1.0)


class Killed(BaseException):
    """This rank is dead."""


class Deaths:
    """Counts what a save does to the disk, and at the n-th time dies in the middle of it."""

    def __init__(self) -> None:
        self.dies_at, self.count, self.is_dead, self.depth = -1, 0, False, 0

    def arm(self, dies_at: int) -> None:
        self.dies_at, self.count, self.is_dead = dies_at, 0, False

    def watch(self, plain: Callable[..., Any], half: Callable[..., None] | None = None) -> Callable[..., Any]:
        """`plain`, at whose dies_at-th call only `half` of it happens."""

        def watched(*args: Any, **named: Any) -> Any:
            if self.depth:
                return plain(*args, **named)
            self.depth += 1
            try:
                if not self.is_dead and self.count == self.dies_at:
                    self.is_dead = True
                    if half is not None:
                        half(*args, **named)
                if self.is_dead:
                    raise Killed
                self.count += 1
                return plain(*args, **named)
            finally:
                self.depth -= 1

        return watched

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Everything that writes is watched."""
        places: list[tuple[Any, str, Any]] = [(torch, "save", half_saved)]
        places += [(Path, name, half_text) for name in ("write_text", "write_bytes")]
        places += [(os, name, None) for name in ("replace", "rename", "remove", "unlink", "rmdir")] + [(shutil, "rmtree", None)]
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
        opened = builtins.open
        watched_open = self.watch(opened, opened)  # dies when the file is there, and empty

        def open_(file: Any, mode: str = "r", *args: Any, **named: Any) -> Any:
            return (watched_open if set(mode) & set("wax+") else opened)(file, mode, *args, **named)

        for (owner, name, _), half in zip(before, (half for _, _, half in places), strict=True):
            setattr(owner, name, self.watch(getattr(owner, name), half))
        builtins.open = io.open = open_
        try:
            yield
        finally:
            builtins.open = io.open = opened
            for owner, name, plain in before:
                setattr(owner, name, plain)


def half_saved(value: Any, file: Any, *_: Any, **__: Any) -> None:
    """The first half of what torch.save writes."""
    whole = io.BytesIO()
    REAL_SAVE(value, whole)
    half = whole.getvalue()[: len(whole.getvalue()) // 2]
    if hasattr(file, "write"):
        file.write(half)
        file.flush()
    else:
        with open(file, "wb") as out:
            out.write(half)


def half_text(path: Path, text: Any, *_: Any, **__: Any) -> None:
    """The first half of a file."""
    with open(path, "wb") as out:
        out.write((text.encode() if isinstance(text, str) else bytes(text))[: len(text) // 2])
