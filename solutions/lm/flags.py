"""The flags of train.py, and which of them cannot be had yet."""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from lm.gpt import PRESETS

# Flags that wait for an assignment: which values ask for it, and its name. A line leaves when the piece is wired in.
WAITING: list[tuple[str, Callable[[Any], bool], str]] = [
    ("pipeline", lambda value: value > 1, "pipeline_parallel"),
    ("expert", lambda value: value > 1, "expert_parallel"),
]
SHARDED = ("zero1", "zero2", "fsdp")  # ways of data parallelism that cut the model over its replicas
# Flags that run a file of yours: which values do, and the file's name, which is its assignment's unless it is said.
YOURS: list[tuple[str, Callable[[Any], bool], str]] = [
    ("precision", lambda value: value == "fp16", "mixed_precision"),
    ("accumulate", lambda value: value > 1, "recomputation"),
    ("recompute", lambda value: value != "none", "recomputation"),
    ("attention", lambda value: value == "flash", "flash_attention"),
    ("context", lambda value: value > 1, "context_parallel"),
    ("data_parallel", lambda value: value == "ddp", "data_parallel"),
    ("data_parallel", lambda value: value in ("zero1", "zero2"), "sharded_optimizer"),
    ("data_parallel", lambda value: value == "fsdp", "fsdp"),
]
ASSIGNMENT_OF = {"sharded_optimizer": "sharded_data_parallel", "fsdp": "sharded_data_parallel"}
# Ways of data parallelism that work around slices of a model.
AROUND_SLICES = ("none", "ddp", "torch_ddp")


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Return the program's flags."""
    parser = argparse.ArgumentParser(prog="train.py", description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder with train_*.tokens and valid_*.tokens, as `make data` writes it")
    add("--preset", choices=sorted(PRESETS), default="1m", help="the model; its vocabulary becomes that of the tokens")
    add("--sequence", type=int, default=0, metavar="TOKENS", help="per sequence (default: as many as the preset allows)")
    add("--batch", type=int, default=16, metavar="SEQUENCES", help="per rank and step")
    add("--steps", type=int, default=400)
    add("--learning-rate", type=float, default=3e-3, help="peak: a linear warm-up, then a cosine to a tenth")
    add("--warmup", type=int, default=20, metavar="STEPS")
    add("--weight-decay", type=float, default=0.1, help="on matrices only")
    add("--clip", type=float, default=1.0, help="largest gradient norm")
    add("--dropout", type=float, default=0.0)
    add("--seed", type=int, default=0)
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--deterministic", action="store_true", help="the same bits every time on a GPU too, more slowly (a CPU always does)")
    add("--precision", choices=("fp32", "tf32", "bf16", "fp16"), default="fp32", help="fp16 scales the loss by your mixed_precision.py")
    add("--compile", action="store_true", help="torch.compile the model")
    add("--attention", choices=("dense", "sdpa", "flash"), default="dense", help="flash is yours")
    add("--pad-vocabulary", type=int, default=1, metavar="N", help="round the vocabulary up to a multiple of N")
    add("--accumulate", type=int, default=1, metavar="N", help="pieces that a batch goes through in, by your recomputation.py")
    add("--recompute", choices=("none", "selective", "full"), default="none", help="by your recomputation.py")
    add("--data-parallel", choices=("none", "ddp", "zero1", "zero2", "fsdp", "torch_ddp", "torch_fsdp2"), default="none")
    for axis in ("tensor", "pipeline", "context", "expert"):
        add(f"--{axis}", type=int, default=1, metavar="N", help=f"ranks along the {axis}-parallel axis")
    add("--sequence-parallel", action="store_true", help="with --tensor: cut the residual stream along the tokens, too")
    # Not --log: torchrun takes that for a shortened --log-dir of its own.
    add("--log-file", type=Path, help="JSON lines, one record per event")
    add("--log-every", type=int, default=10, metavar="STEPS")
    add("--evaluate-every", type=int, default=0, metavar="STEPS", help="0: at the end only")
    add("--evaluate-batches", type=int, default=8)
    add("--checkpoint", type=Path, help="file to save to: whole or not at all")
    add("--checkpoint-every", type=int, default=0, metavar="STEPS", help="0: at the end only")
    add("--resume", action="store_true", help="continue from --checkpoint, to the bit")
    return parser


def what_is_missing(options: argparse.Namespace) -> str | None:
    """Say which flag cannot be had here, why, and what to do; None if all can."""
    for name, asks, assignment in WAITING:
        value = getattr(options, name)
        if asks(value):
            flag = f"--{name.replace('_', '-')} {value}"
            return f"{flag} is for the assignment {assignment}, whose pieces train.py does not run yet; leave the flag out"
    for name, asks, file in YOURS:
        value = getattr(options, name)
        if asks(value) and importlib.util.find_spec(file) is None:
            flag, assignment = f"--{name.replace('_', '-')} {value}", ASSIGNMENT_OF.get(file, file)
            return f"{flag} runs your {file}.py, of the assignment {assignment}; there is none beside train.py"
    if options.attention == "flash" and (complaint := what_kernels_lack(options)):
        return complaint
    if options.tensor > 1 and (complaint := what_slices_lack(options)):
        return complaint
    if options.context > 1 and (complaint := what_stripes_lack(options)):
        return complaint
    if int(os.environ.get("WORLD_SIZE", "1")) // (options.tensor * options.context) > 1 and options.data_parallel == "none":
        return "several ranks were started, but nothing keeps their weights equal: add --data-parallel torch_ddp, or run plain python"
    if options.data_parallel != "none" and "RANK" not in os.environ:
        return f"--data-parallel {options.data_parallel} needs ranks: start it by torchrun --nproc-per-node 2 train.py …"
    if options.accumulate > options.batch:
        return f"--accumulate {options.accumulate} cuts --batch {options.batch} into more pieces than it has sequences; take a larger batch"
    if options.precision == "fp16" and options.data_parallel == "torch_fsdp2":
        return "--precision fp16 looks at every gradient before a step, and FSDP2 keeps a part on each rank: take torch_ddp, or bf16"
    if options.data_parallel in SHARDED and (complaint := what_shards_lack(options)):
        return complaint
    if options.resume and not (options.checkpoint and options.checkpoint.exists()):
        return f"--resume finds no checkpoint at {options.checkpoint}: name the file by --checkpoint, or leave --resume out"
    return None


def what_kernels_lack(options: argparse.Namespace) -> str | None:
    """Say that Triton's kernels have nothing to run on; None if there is a GPU, or the interpreter was asked for."""
    if os.environ.get("TRITON_INTERPRET") == "1" or (options.device != "cpu" and torch.cuda.is_available()):
        return None
    why = "--device cpu leaves it none" if torch.cuda.is_available() else "there is none here"
    instead = "take --attention sdpa, or set TRITON_INTERPRET=1 for Triton's interpreter, which takes minutes for a step"
    return f"--attention flash runs your Triton kernels on a GPU, and {why}: {instead}"


def what_slices_lack(options: argparse.Namespace) -> str | None:
    """Say what --tensor asks for and does not find; None if it has all."""
    flag, num_ranks = f"--tensor {options.tensor}", int(os.environ.get("WORLD_SIZE", "1"))
    if importlib.util.find_spec("tensor_parallel") is None:
        return f"{flag} runs your tensor_parallel.py, of the assignment tensor_parallel; there is none beside train.py"
    if num_ranks % options.tensor:
        return f"{flag} needs a multiple of {options.tensor} ranks, not {num_ranks}: torchrun --nproc-per-node {options.tensor} train.py …"
    if options.data_parallel not in AROUND_SLICES:
        return f"{flag} cuts what --data-parallel {options.data_parallel} would cut, too: take {' or '.join(AROUND_SLICES[1:])} around it"
    if options.precision == "fp16":
        return f"{flag} with fp16 would have each rank look for overflows in its own slices only: take bf16 or fp32"
    if options.recompute != "none" and options.sequence_parallel and options.dropout:
        return f"{flag} with --sequence-parallel drops by a stream of each rank's own, which --recompute doesn't rewind: leave one out"
    if options.checkpoint:
        return f"{flag} leaves each rank a slice of the model, and nothing joins them to a checkpoint: leave --checkpoint out"
    return None


def what_stripes_lack(options: argparse.Namespace) -> str | None:
    """Say what --context asks for and does not find; None if it has all."""
    flag, num_ranks = f"--context {options.context}", int(os.environ.get("WORLD_SIZE", "1"))
    if num_ranks % options.context:
        return f"{flag} needs a multiple of {options.context} ranks, not {num_ranks}: start them by torchrun --nproc-per-node"
    if (options.sequence or PRESETS[options.preset].max_tokens) % (2 * options.context):
        return f"{flag} cuts every sequence into {2 * options.context} equal stripes: take a --sequence that can be cut so"
    if options.tensor > 1 or options.data_parallel not in AROUND_SLICES:
        return f"{flag} is for whole models: leave --tensor out, and around it take {' or '.join(AROUND_SLICES[1:])}"
    if options.attention != "dense" or options.compile or options.accumulate > 1:
        return f"{flag} attends by your ring and takes a batch as a whole: leave --attention, --compile and --accumulate out"
    return None


def what_shards_lack(options: argparse.Namespace) -> str | None:
    """Say what a model that is cut over its replicas can't be had with; None if all is well."""
    flag = f"--data-parallel {options.data_parallel}"
    if options.precision == "fp16":
        return f"{flag} leaves each rank a part of the gradients, and fp16 looks at every one: take bf16 or fp32"
    if options.checkpoint:
        return f"{flag} leaves each rank a part, which your sharded_checkpoint.py saves and train.py doesn't: leave --checkpoint out"
    if options.accumulate > 1 and options.data_parallel == "zero2":
        return f"{flag} reduces after each backward, of which --accumulate makes several in one call: take zero1 or fsdp"
    if options.data_parallel == "fsdp" and (options.compile or options.recompute != "none"):
        return f"{flag} gathers weights by hooks, which --compile and --recompute would pass by: leave them out, or take zero2"
    return None
