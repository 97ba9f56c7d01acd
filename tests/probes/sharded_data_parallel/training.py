"""Spans, steps of training, the precision of a step, and clipping."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .surroundings import fsdp_of, group_of, parts_of, plain, word
from .toys import Layer, Step, Toy, Trainer


def spans(at: Any, *, cases: list[list[Any]]) -> dict[str, Tensor]:
    """shard_spans of [sizes, world size] for every rank: ranks × tensors × (start, stop)."""
    function = at.submission.sharded_optimizer.shard_spans
    answer = {}
    for number, (sizes, world_size) in enumerate(cases):
        rows = torch.full((world_size, len(sizes), 2), -1, dtype=torch.int64)
        for rank in range(world_size):
            for place, (start, stop) in enumerate(list(function(iter(sizes), rank, world_size))[: len(sizes)]):
                rows[rank, place] = torch.tensor([int(start), int(stop)])
        answer[f"case_{number}"] = rows
    return answer


def train(
    at: Any, *, stage: str, optimizer: str, defaults: dict[str, float], steps: list[Step], members: list[int] | None = None, **how: Any
) -> dict[str, Tensor]:
    """Steps of a Toy under "zero1", "zero2" or "fsdp"; the weights after each, as after/<step>/<name>.

    Of a step: `micro_batches`; `unused` (rank -> parameters that it doesn't use); `write` (group -> settings written before it);
    `decay`: a torch scheduler halves lr after it; `add`: a group of that number in `how["groups"]` is added before it; `closure`;
    `clip`: max_norm; `forgets`: before it a gradient is reduced and forgotten. Inputs: value/<name>, factor/<step>/<micro-batch>/<name>.
    """
    group, takes_part = group_of(at, members)
    module = Toy(at.inputs, frozen=how.get("frozen", ()), shared=how.get("shared"))
    answer: dict[str, Tensor] = {}
    if takes_part:
        with at.phase("construct"):
            trainer = Trainer(at, module, stage, getattr(torch.optim, optimizer), defaults, group, how)
    for number, step in enumerate(steps):
        if takes_part:
            answer |= trainer.take(number, step)
        answer |= {f"after/{number}/{name}": value for name, value in (trainer.weights() if takes_part else module.weights()).items()}
    if takes_part:
        at.report(norms=[float(norm) for norm in trainer.norms], group_keys=sorted(trainer.optimizer.param_groups[0]))
    return answer


def precision(at: Any, *, num_steps: int, lr: float, **how: Any) -> dict[str, Tensor]:
    """SGD steps of a Toy of bfloat16 compute; what layers saw, the dtypes of everything, and the masters by full gather."""
    dtypes: dict[str, str] = {}
    module = Toy(at.inputs)
    fsdp = fsdp_of(at, Spying(module, dtypes), None, how, Layer)
    optimizer = torch.optim.SGD(fsdp.parameters(), lr=lr)
    for number in range(num_steps):
        with at.phase(f"step {number}"):
            loss = fsdp(factors=parts_of(at.inputs, f"factor/{number}"))
            loss.backward()
        dtypes["output"] = word(loss.dtype)
        shards = fsdp.named_shards()
        dtypes |= {f"shard {name}": word(shard.dtype) for name, shard in shards.items()}
        gradients = {name: plain(shard.grad) for name, shard in shards.items() if shard.grad is not None}
        dtypes |= {f"gradient {name}": word(gradient.dtype) for name, gradient in gradients.items()}
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients.values()])
        at.report(num_rounded=int((flat == flat.to(getattr(torch, how["compute_dtype"]))).sum()), num_gradients=flat.numel())
        optimizer.step()
        optimizer.zero_grad()
    with at.phase("look"):
        masters = {n.removeprefix("inner."): plain(w).clone() for n, w in fsdp.gather_whole(dict(fsdp.named_shards()))}
    at.report(dtypes=dtypes)
    return {f"master/{name}": value for name, value in masters.items()} | {f"seen/{name}": value for name, value in module.seen.items()}


class Spying(nn.Module):
    """Notes the dtypes of what a module gets."""

    def __init__(self, inner: Toy, dtypes: dict[str, str]) -> None:
        super().__init__()
        self.inner, self.dtypes = inner, dtypes
        self.register_buffer("statistics", torch.ones(3))

    def forward(self, *, factors: dict[str, Tensor]) -> Tensor:
        self.dtypes["buffer"] = word(self.statistics.dtype)
        self.dtypes |= {f"input {name}": word(factor.dtype) for name, factor in factors.items()}
        return self.inner(factors=factors)


def clip(at: Any, *, max_norm: float, names: list[str], members: list[int] | None = None) -> dict[str, Tensor]:
    """clip_grad_norm_ of this rank's inputs; them, and the norm, afterwards."""
    group, takes_part = group_of(at, members)
    tensors = {name: at.inputs[name].clone() for name in names}
    norm = torch.zeros(())
    if takes_part:
        with at.phase("clip"):
            norm = at.submission.sharded_optimizer.clip_grad_norm_(iter(tensors.values()), max_norm, group=group)
    return tensors | {"norm": norm.detach().double().reshape(())}
