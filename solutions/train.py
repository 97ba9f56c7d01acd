"""Train the given GPT, by `python train.py` or `torchrun … train.py`; flags switch on the pieces that you wrote.

python train.py --data ../datasets/cache/stdlib --steps 400 --log-file run.jsonl --checkpoint run.pt
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from lm.checkpoint import read_checkpoint, restore, save_checkpoint
from lm.flags import SHARDED, make_parser, what_is_missing
from lm.gpt import GPT, PRESETS, GPTConfig
from lm.hardware import hardware_here
from lm.loader import Shard, TokenLoader
from lm.pieces import (
    add_up_sequences,
    cut_into_slices,
    cut_over_replicas,
    cut_sequences,
    data_parallel,
    loss_scaler,
    recompute_blocks,
)
from lm.training import (
    autocast,
    counted_flops_per_token,
    make_optimizer,
    names_of_matrices,
    peak_memory_bytes,
    scheduled_learning_rate,
    set_precision,
    train_step,
)


@contextmanager
def process_group(device_kind: str) -> Iterator[tuple[int, int, torch.device]]:
    """Yield (rank, world_size, device), joined to the other ranks if torchrun started this one."""
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    on_gpu = device_kind == "cuda" or (device_kind == "auto" and torch.cuda.is_available())
    device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    if "RANK" not in os.environ:
        yield 0, 1, device
        return
    dist.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield dist.get_rank(), dist.get_world_size(), device
        if not on_gpu:
            # A thread of gloo's that lets go of a tensor needs Python's lock; whoever ends the group waits for it with the lock in hand.
            # Waiting here, where the lock is free, lets it finish first.
            dist.barrier()
    finally:
        dist.destroy_process_group()


def mean_over_ranks(value: Tensor) -> float:
    """Return the mean over ranks of a scalar; every rank must call."""
    mean = value.detach().float().clone()
    if dist.is_initialized():
        dist.all_reduce(mean)
        mean /= dist.get_world_size()
    return mean.item()


class Log:
    """JSON lines to a file and sentences to the terminal, from rank 0 only."""

    def __init__(self, path: Path | None, *, rank: int, append: bool) -> None:
        self.speaks = rank == 0
        self.file = path.open("a" if append else "w", encoding="utf-8") if path and self.speaks else None

    def write(self, event: str, **fields: Any) -> None:
        """Append one record and hand it to the system at once, so that a kill loses none."""
        if self.file:
            self.file.write(json.dumps({"event": event, **fields}) + "\n")
            self.file.flush()

    def say(self, sentence: str) -> None:
        """Print one line to the terminal."""
        if self.speaks:
            print(sentence, file=sys.stderr, flush=True)


def open_shards(folder: Path, part: str) -> list[Shard]:
    """Open every shard of a part, train or valid, in the order of their names."""
    shards = [Shard.open(path) for path in sorted(folder.glob(f"{part}_*.tokens"))]
    if not shards:
        raise ValueError(f"{folder} holds no {part}_*.tokens; `make data` writes them to datasets/cache/<corpus>")
    return shards


def configure(options: argparse.Namespace, vocab_size: int) -> GPTConfig:
    """Return the preset with the tokens' vocabulary and what the flags say."""
    multiple = options.pad_vocabulary
    padded = -(-vocab_size // multiple) * multiple
    return dataclasses.replace(PRESETS[options.preset], vocab_size=padded, attention=options.attention, dropout=options.dropout)


class Run:
    """One training run: what it holds, and its loop."""

    def __init__(self, options: argparse.Namespace, rank: int, world_size: int, device: torch.device) -> None:
        self.options, self.rank, self.world_size, self.device = options, rank, world_size, device
        num_neighbours = options.tensor * options.context  # they hold one model together, or one batch
        self.replica, self.num_replicas = rank // num_neighbours, world_size // num_neighbours
        if device.type == "cpu" or options.deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS keeps no promise without it
            torch.use_deterministic_algorithms(True)
        set_precision(options.precision, device)
        self.shards = {part: open_shards(options.data, part) for part in ("train", "valid")}
        self.config = configure(options, self.shards["train"][0].vocab_size)
        self.sequence = options.sequence or self.config.max_tokens
        self.loader = self.load("train")
        torch.manual_seed(options.seed)  # equal weights on every rank
        self.model = GPT(self.config).to(device)
        self.num_parameters = sum(p.numel() for p in self.model.parameters())
        recompute_blocks(self.model, options.recompute)
        self.scaler = loss_scaler(options.precision)
        replicas, self.clip_grad_norm = cut_into_slices(self.model, options, self.replica)
        neighbours, self.own_part = None, lambda x_BT: x_BT
        if options.context > 1:
            neighbours, replicas, self.own_part = cut_sequences(self.model, options.context, self.sequence)
        how = {"matrices": names_of_matrices(self.model), "learning_rate": options.learning_rate, "weight_decay": options.weight_decay}
        self.trainee: Any
        if options.data_parallel in SHARDED:
            self.trainee, self.optimizer, self.clip_grad_norm = cut_over_replicas(
                self.model, options.data_parallel, functools.partial(make_optimizer, **how)
            )
        else:
            self.trainee = data_parallel(self.model, options.data_parallel, replicas)
            self.optimizer = make_optimizer(dict(self.model.named_parameters()), **how)
        if neighbours:
            add_up_sequences(self.trainee, self.model, neighbours)
        if options.compile:
            self.trainee.compile()
        torch.manual_seed(options.seed + 1 + rank // options.tensor)  # but each replica, or part of a sequence, its own dropout
        self.step = 0
        self.hardware = hardware_here(device, options.precision)
        self.peak_flops_per_s = self.hardware.peak_flops_per_s.get(options.precision) if self.hardware else None
        self.flops_per_token = counted_flops_per_token(self.config, self.sequence)
        self.log = Log(options.log_file, rank=rank, append=options.resume)

    def load(self, part: str) -> TokenLoader:
        """Return a loader at the beginning of `part`."""
        where = {"rank": self.replica, "world_size": self.num_replicas, "seed": self.options.seed}
        return TokenLoader(self.shards[part], batch_size=self.options.batch, num_tokens=self.sequence, **where)

    def next_batch(self, loader: TokenLoader) -> tuple[Tensor, Tensor]:
        """Return the next batch on the device; a GPU doesn't wait for the copy."""
        tokens_BT, targets_BT = map(self.own_part, loader.next_batch())
        if self.device.type == "cuda":
            tokens_BT, targets_BT = tokens_BT.pin_memory(), targets_BT.pin_memory()
        return tokens_BT.to(self.device, non_blocking=True), targets_BT.to(self.device, non_blocking=True)

    def resume(self) -> None:
        """Continue from the checkpoint; ValueError if it belongs to another run."""
        saved = read_checkpoint(self.options.checkpoint)
        for name, here in dataclasses.asdict(self.config).items():
            # Another attention computes the same model; everything else decides which weights exist.
            was = saved["config"].get(name, getattr(GPTConfig, name, here))  # a setting younger than the checkpoint was at its default
            if name != "attention" and was != here:
                raise ValueError(f"{self.options.checkpoint} was saved with {name} {was}, this run has {here}")
        self.loader.load_state_dict(saved["loader"])
        restore(saved, self.model, self.optimizer)
        if self.scaler:
            self.scaler.load_state_dict(saved["scaler"])
        self.step = saved["step"]

    def train(self) -> None:
        """Go from self.step to the last step; report, evaluate and save on the way."""
        options = self.options
        self.introduce()
        clock, clock_step = time.perf_counter(), self.step
        while self.step < options.steps:
            learning_rate = scheduled_learning_rate(
                self.step, num_steps=options.steps, warmup_steps=options.warmup, peak=options.learning_rate
            )
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate
            batch = self.next_batch(self.loader)
            how = {"precision": options.precision, "clip": options.clip, "num_micro_batches": options.accumulate, "scaler": self.scaler}
            loss, norm = train_step(self.trainee, self.optimizer, *batch, clip_grad_norm=self.clip_grad_norm, **how)
            self.step += 1
            evaluates, saves = self.is_due(options.evaluate_every), bool(options.checkpoint) and self.is_due(options.checkpoint_every)
            if evaluates or saves or self.is_due(options.log_every):
                mean_loss = mean_over_ranks(loss)  # waits for the device: the clock is read after the work is done
                self.report(mean_loss, norm, learning_rate, step_s=(time.perf_counter() - clock) / (self.step - clock_step))
                if evaluates:
                    self.evaluate()
                if saves:
                    self.save()
                clock, clock_step = time.perf_counter(), self.step

    def is_due(self, every: int) -> bool:
        """Say whether something done `every` so many steps is due now; everything is after the last step."""
        return self.step == self.options.steps or (every > 0 and self.step % every == 0)

    def introduce(self) -> None:
        """Log what this run is, and say it in one sentence."""
        device = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "CPU"
        self.log.write(
            "start",
            step=self.step,
            flags={name: str(value) if isinstance(value, Path) else value for name, value in vars(self.options).items()},
            config=dataclasses.asdict(self.config),
            num_parameters=self.num_parameters,
            device=device,
            world_size=self.world_size,
            torch_version=torch.__version__,
            flops_per_token=self.flops_per_token,
            peak_flops_per_s=self.peak_flops_per_s,
            peak_source=self.hardware.source if self.hardware else None,
        )
        words = f"{self.num_parameters:,} parameters, vocabulary {self.config.vocab_size}, {self.world_size} × {device}, step {self.step}"
        self.log.say(words)
        if self.peak_flops_per_s is None:
            self.log.say(f"lm/hardware.py knows no {self.options.precision} peak of this device: MFU is left out")

    def report(self, loss: float, norm: Tensor, learning_rate: float, *, step_s: float) -> None:
        """Log the step just done, and say how far the run is."""
        tokens_per_s = self.options.batch * self.sequence * self.num_replicas / step_s
        mfu = tokens_per_s * self.flops_per_token / (self.peak_flops_per_s * self.world_size) if self.peak_flops_per_s else None
        memory_bytes = peak_memory_bytes(self.device)
        whole_norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm  # FSDP2 keeps the norm in shards as well
        self.log.write(
            "step",
            step=self.step,
            loss=loss,
            gradient_norm=whole_norm.item(),
            learning_rate=learning_rate,
            step_s=step_s,
            process_cpu_s=time.process_time(),  # on a machine shared with others, wall time says little
            tokens_per_s=tokens_per_s,
            mfu=mfu,
            peak_memory_bytes=memory_bytes,
        )
        minutes, seconds = divmod(round((self.options.steps - self.step) * step_s), 60)
        utilisation = "" if mfu is None else f"  MFU {mfu:.1%}"
        self.log.say(
            f"step {self.step}/{self.options.steps}  loss {loss:.3f}  {tokens_per_s:,.0f} tokens/s{utilisation}  "
            f"peak {memory_bytes / 2**30:.1f} GiB  {minutes}:{seconds:02} left"
        )

    @torch.no_grad()
    def evaluate(self) -> None:
        """Log the mean loss over the first batches of the validation tokens, the same ones each time."""
        loader = self.load("valid")
        self.trainee.eval()
        with autocast(self.options.precision, self.device):
            losses = [self.trainee(*self.next_batch(loader)).float() for _ in range(self.options.evaluate_batches)]
        self.trainee.train()
        loss = mean_over_ranks(torch.stack(losses).mean())
        self.log.write("evaluation", step=self.step, loss=loss)
        self.log.say(f"step {self.step}/{self.options.steps}  validation loss {loss:.3f}")

    def save(self) -> None:
        """Save everything that resume needs."""
        place = {"step": self.step, "loader": self.loader.state_dict(), "config": dataclasses.asdict(self.config)}
        if self.scaler:
            place["scaler"] = self.scaler.state_dict()
        save_checkpoint(self.options.checkpoint, self.model, self.optimizer, **place)
        self.log.write("checkpoint", step=self.step)


def main(argv: Sequence[str] | None = None) -> None:
    """Train as the flags say; a flag that can't be had ends the program with status 2 and a sentence."""
    parser = make_parser(__doc__)
    options = parser.parse_args(argv)
    complaint = what_is_missing(options)
    if complaint:
        parser.error(complaint)
    with process_group(options.device) as (rank, world_size, device):
        try:
            run = Run(options, rank, world_size, device)
            if options.resume:
                run.resume()
        except ValueError as error:
            parser.error(str(error))
        run.train()


if __name__ == "__main__":
    main()
