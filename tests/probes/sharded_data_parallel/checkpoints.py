"""State dicts and checkpoints: saved, carried into another world, and loaded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .surroundings import become, group_of, parts_of, plain, shared_folder
from .toys import Step, Toy, Trainer, blank_trainer, filled


def trained_state(
    at: Any, *, shapes: dict[str, list[int]], optimizer: str, defaults: dict[str, float], num_steps: int, **how: Any
) -> dict[str, Tensor]:
    """full_state_dict after some steps, read only after one more; facts: its names. NaN of `shapes` on rank 0 for what isn't there."""
    module = Toy(at.inputs, frozen=how.get("frozen", ()), shared=how.get("shared"))
    trainer = Trainer(at, module, "fsdp", getattr(torch.optim, optimizer), defaults, None, how)
    for number in range(num_steps):
        trainer.take(number, {})
    with at.phase("save"):
        state = at.submission.sharded_checkpoint.full_state_dict(trainer.wrapped, trainer.optimizer)
    trainer.take(num_steps, {})
    at.report(**described(state))
    answer = tensors_of(state, list(shapes))
    for name, shape in shapes.items() if at.rank == 0 else ():
        if not answer[name].numel():
            answer[name] = torch.full(shape, float("nan"), dtype=torch.float32 if name.startswith("state/step/") else torch.float64)
    return answer


def described(state: dict[str, Any]) -> dict[str, Any]:
    """Which names a state dict has, in its order."""
    return {
        "keys": sorted(state),
        "model": list(state.get("model", {})),
        "optimizer": {name: sorted(values) for name, values in state.get("optimizer", {}).items()},
    }


def tensors_of(state: dict[str, Any], names: list[str]) -> dict[str, Tensor]:
    """value/<name> and state/<key>/<name>; an empty tensor for what isn't there."""
    answer = {f"value/{name}": torch.as_tensor(value) for name, value in state.get("model", {}).items()}
    for name, values in state.get("optimizer", {}).items():
        answer |= {f"state/{key}/{name}": torch.as_tensor(value) for key, value in values.items() if value is not None}
    return {name: answer[name].detach() if name in answer else torch.empty(0, dtype=torch.float64) for name in names}


def moved(
    at: Any, *, names: list[str], way: str, savers: list[int], loaders: list[int], steps: list[Step], defaults: dict[str, float]
) -> dict[str, Tensor]:
    """The given weights and AdamW moments go into the savers' world, from there into the loaders', which trains on.

    Answer of the first loader: its full_state_dict before the steps; of every loader: the weights after them.
    """
    checkpoints = at.submission.sharded_checkpoint
    given = {"model": parts_of(at.inputs, "value"), "optimizer": {}}
    for name in given["model"]:
        moments = {key: at.inputs[f"state/{key}/{name}"] for key in ("exp_avg", "exp_avg_sq")}
        given["optimizer"][name] = moments | {"step": torch.tensor(3.0)}
    folder = shared_folder() / "checkpoint"
    first, takes_part = group_of(at, savers)
    if takes_part:
        saver = blank_trainer(at, first, defaults)
        checkpoints.load_full_state_dict(saver.wrapped, saver.optimizer, given)
        with at.phase("save"):
            if way == "whole":
                state = checkpoints.full_state_dict(saver.wrapped, saver.optimizer)
                if at.rank == savers[0]:
                    at.mark(f"full_state_dict has {', '.join(state) or 'nothing'}")
                    folder.mkdir(parents=True)
                    torch.save(state, folder / "state.pt")
            else:
                checkpoints.save_sharded(folder, saver.wrapped, saver.optimizer, barrier=lambda: dist.barrier(first))
    dist.barrier()
    second, takes_part = group_of(at, loaders)
    if not takes_part:
        shapes = {f"after/{name}": value.shape for name, value in given["model"].items()}
        return tensors_of({}, names) | {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}
    loader = blank_trainer(at, second, defaults)
    before = [id(shard) for shard in loader.wrapped.named_shards().values()]
    with at.phase("load"):
        if way == "whole":
            loaded = torch.load(folder / "state.pt")
            checkpoints.load_full_state_dict(loader.wrapped, loader.optimizer, loaded)
        else:
            checkpoints.load_sharded(folder, loader.wrapped, loader.optimizer)
    at.report(is_same_shards=before == [id(shard) for shard in loader.wrapped.named_shards().values()])
    answer = tensors_of(checkpoints.full_state_dict(loader.wrapped, loader.optimizer), names)
    for number, step in enumerate(steps):
        loader.take(number, step)
    leaves = torch.utils._pytree.tree_leaves
    is_untouched = way != "whole" or all(map(torch.equal, leaves(loaded), leaves(torch.load(folder / "state.pt"))))
    at.report(is_state_untouched=is_untouched)
    return answer | {f"after/{name}": value for name, value in loader.weights().items()}


def taken_back(at: Any, *, way: str, defaults: dict[str, float]) -> dict[str, Tensor]:
    """The weights after the first step of SGD, and after the same step once more: a checkpoint from before it was loaded between."""
    checkpoints, folder = at.submission.sharded_checkpoint, shared_folder() / "checkpoint"
    trainer = Trainer(at, Toy(at.inputs), "fsdp", torch.optim.SGD, defaults, None, {})
    if way == "whole":
        states = [checkpoints.full_state_dict(trainer.wrapped, trainer.optimizer)]
        dist.broadcast_object_list(states, src=0)
    else:
        checkpoints.save_sharded(folder, trainer.wrapped, trainer.optimizer, barrier=dist.barrier)
    trainer.take(0, {})
    answer = {f"first/{name}": value for name, value in trainer.weights().items()}
    if way == "whole":
        checkpoints.load_full_state_dict(trainer.wrapped, trainer.optimizer, states[0])
    else:
        checkpoints.load_sharded(folder, trainer.wrapped, trainer.optimizer)
    trainer.take(0, {})
    return answer | {f"again/{name}": value for name, value in trainer.weights().items()}


def many_savers(at: Any, *, num_savers: int) -> dict[str, Tensor]:
    """The given weights and momenta, saved by many ranks that take turns in this process, and loaded by one that is alone."""
    given = parts_of(at.inputs, "value")
    momenta = {name: {"momentum_buffer": value} for name, value in parts_of(at.inputs, "momentum").items()}
    folder = shared_folder() / "checkpoint"

    def save(barrier: Callable[[], None]) -> None:
        trainer = filled(at, 0.0)
        at.submission.sharded_checkpoint.load_full_state_dict(trainer.wrapped, trainer.optimizer, {"model": given, "optimizer": momenta})
        at.submission.sharded_checkpoint.save_sharded(folder, trainer.wrapped, trainer.optimizer, barrier=barrier)

    take_turns(num_savers, save)
    become(0, 1)
    loader = filled(at, 0.0)
    at.submission.sharded_checkpoint.load_sharded(folder, loader.wrapped, loader.optimizer)
    answer = {}
    for name, shard in loader.wrapped.named_shards().items():  # of one rank: everything, flat or not
        answer[f"value/{name}"] = plain(shard.detach()).reshape(given[name].shape)
        answer[f"momentum/{name}"] = plain(loader.optimizer.state[shard]["momentum_buffer"]).reshape(given[name].shape)
    return answer


def take_turns(num_ranks: int, work: Callable[[Callable[[], None]], None]) -> None:
    """Let each rank do its work up to the next barrier, one after the other, in threads of which one runs at a time."""
    goes_on = [threading.Semaphore(0) for _ in range(num_ranks)]
    has_stopped, errors, alive = threading.Semaphore(0), [], set(range(num_ranks))

    def live(rank: int) -> None:
        def barrier() -> None:
            has_stopped.release()
            goes_on[rank].acquire()

        goes_on[rank].acquire()
        try:
            work(barrier)
        except BaseException as error:  # raised below, in the thread that answers
            errors.append(error)
        alive.remove(rank)
        has_stopped.release()

    for rank in range(num_ranks):
        threading.Thread(target=live, args=(rank,), daemon=True).start()
    while alive and not errors:
        for rank in sorted(alive):
            become(rank, num_ranks)
            goes_on[rank].release()
            has_stopped.acquire()
    if errors:
        raise errors[0]
