"""Pipeline parallelism: a model cut into stages, one or more per rank, and a batch cut into micro-batches that flow through them.

A schedule is data: for each rank the list of what it computes, in order. Whoever executes it derives from it what has to be sent. So a
schedule can be drawn, timed and proved free of deadlock before anything runs. "Rank" counts within the group, as everywhere in the course.
"""

# P ranks, V chunks (stages) per rank, S = P·V stages, M micro-batches; stage s lives on rank s % P
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn

FORWARD, BACKWARD = "F", "B"
BACKWARD_INPUT, BACKWARD_WEIGHT = "I", "W"  # the two halves of a BACKWARD, for task zero_bubble


class Action(NamedTuple):
    """One thing that a rank computes."""

    kind: str  # FORWARD, BACKWARD, BACKWARD_INPUT or BACKWARD_WEIGHT
    stage: int  # 0 … S-1, of the whole pipeline
    micro_batch: int  # 0 … M-1


Schedule = list[list[Action]]  # schedule[rank]: in the order in which the rank does them
LossFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # (output of the last stage, target) -> mean of the micro-batch
Tensors = Sequence[torch.Tensor]


# --- task simulation -------------------------------------------------------------------------------------------------
def bubble_fraction(schedule: Sequence[Sequence[Action]], costs: Mapping[str, Sequence[float]]) -> float:
    """Return the share of the ranks' time in which they compute nothing: idle / total, where total is P times the time of the step.

    costs[kind][stage]: seconds of such an action. A message takes no time; each rank begins an action as soon as the rank is free and
    what the action needs has been computed. A schedule that can't come to its end raises ValueError. An empty one has the bubble 0.
    """
    raise NotImplementedError("pipeline_parallel, task simulation: see section 3 of the handout")


def needed_by(action: Action, last_stage: int) -> list[list[Action]]:
    """Return what must be done before `action`, each in the ways in which it may have been done. A helper: never called by the tests."""
    raise NotImplementedError("pipeline_parallel, task simulation: see section 3 of the handout")


# --- task gpipe ------------------------------------------------------------------------------------------------------
def gpipe(num_ranks: int, num_micro_batches: int) -> Schedule:
    """Return the schedule with one stage per rank in which every rank does all its forwards, then all its backwards."""
    raise NotImplementedError("pipeline_parallel, task gpipe: see section 4 of the handout")


# --- task one_f_one_b ------------------------------------------------------------------------------------------------
def one_f_one_b(num_ranks: int, num_micro_batches: int) -> Schedule:
    """Return the schedule with one stage per rank in which rank r never has more than P - r micro-batches between forward and backward."""
    raise NotImplementedError("pipeline_parallel, task one_f_one_b: see section 5 of the handout")


def alternating(forwards: list[Action], backwards: list[Action], num_warm_up: int) -> list[Action]:
    """Return `num_warm_up` forwards, then forward and backward in turn, then what is left. A helper: never called by the tests."""
    raise NotImplementedError("pipeline_parallel, task one_f_one_b: see section 5 of the handout")


# --- task interleaved ------------------------------------------------------------------------------------------------
def interleaved_one_f_one_b(num_ranks: int, num_micro_batches: int, num_chunks: int) -> Schedule:
    """Return 1F1B with `num_chunks` stages per rank: rank r has the stages r, r + P, r + 2P, …; M is a multiple of P, or ValueError."""
    raise NotImplementedError("pipeline_parallel, task interleaved: see section 6 of the handout")


# --- task executor ---------------------------------------------------------------------------------------------------
class PipelineStage:
    """One rank's part of a pipeline: its stages, and the execution of a schedule over them.

    stages: this rank's modules by the number of their stage, each from one tensor to one tensor
    num_stages: S, of the whole pipeline
    boundary: a tensor of the shape, dtype and device of everything that goes from a stage to the next; its values mean nothing
    loss_function: called where the last stage lives, once for each micro-batch
    group: through which activations travel; gradient_group: and gradients (None: the same)
    """

    def __init__(
        self, stages: Mapping[int, nn.Module], num_stages: int, boundary: torch.Tensor, loss_function: LossFunction,
        group: dist.ProcessGroup | None = None, gradient_group: dist.ProcessGroup | None = None,
    ) -> None:  # fmt: skip
        self.stages, self.num_stages, self.boundary, self.loss_function = stages, num_stages, boundary, loss_function
        self.rank, self.num_ranks = dist.get_rank(group), dist.get_world_size(group)
        # NCCL carries out a pair's messages of one group in order, in both directions: hence two, or they hold each other up.
        self.groups = {FORWARD: group, BACKWARD: gradient_group if gradient_group is not None else group}
        raise NotImplementedError("pipeline_parallel, task executor: see section 7 of the handout")

    def run(
        self, schedule: Sequence[Sequence[Action]], inputs: Tensors | None = None, targets: Tensors | None = None
    ) -> torch.Tensor | None:
        """Execute this rank's part; add to each parameter's grad that of the mean loss over the micro-batches; nothing is left under way.

        inputs, targets: one for each micro-batch; given where stage 0, or the last one, lives. Returns the mean loss, detached, where the
        last stage lives, and None elsewhere. The schedule consists of FORWARD and BACKWARD and is the same on all ranks.
        """
        raise NotImplementedError("pipeline_parallel, task executor: see section 7 of the handout")

    def _forward(self, stage: int, micro_batch: int, x: torch.Tensor, target: torch.Tensor | None, share: float) -> torch.Tensor:
        """Compute a stage, keep what its backward needs, and send the output on. A helper: never called by the tests."""
        raise NotImplementedError("pipeline_parallel, task executor: see section 7 of the handout")

    def _backward(self, stage: int, micro_batch: int, gradient: torch.Tensor | None) -> None:
        """Carry the gradient of a stage's output to its parameters and its input. A helper: never called by the tests."""
        raise NotImplementedError("pipeline_parallel, task executor: see section 7 of the handout")

    def _send(self, kind: str, stage: int, micro_batch: int, tensor: torch.Tensor) -> None:
        """Send what the action `kind` of `stage` waits for, and go on. A helper: never called by the tests."""
        raise NotImplementedError("pipeline_parallel, task executor: see section 7 of the handout")

    def _receive(self, kind: str, stage: int, micro_batch: int) -> torch.Tensor:
        """Return what the action `kind` of `stage` waits for. A helper: never called by the tests."""
        raise NotImplementedError("pipeline_parallel, task executor: see section 7 of the handout")


# --- task tied -------------------------------------------------------------------------------------------------------
def broadcast_tied_weight(weight: nn.Parameter, group: dist.ProcessGroup | None = None) -> None:
    """Make every copy of a weight that several stages share that of group rank 0, in place. Called by the owners, who are the group."""
    raise NotImplementedError("pipeline_parallel, task tied: see section 8 of the handout")


def all_reduce_tied_gradient(weight: nn.Parameter, group: dist.ProcessGroup | None = None) -> None:
    """Make every copy's gradient the sum over the owners, as if it were one parameter. A missing gradient (None) counts as zeros."""
    raise NotImplementedError("pipeline_parallel, task tied: see section 8 of the handout")


# --- task zero_bubble ------------------------------------------------------------------------------------------------
def zero_bubble(num_ranks: int, num_micro_batches: int) -> Schedule:
    """Return a schedule of FORWARD, BACKWARD_INPUT and BACKWARD_WEIGHT, one stage per rank, with a third of 1F1B's bubble in its memory.

    At most P micro-batches are between forward and BACKWARD_WEIGHT on any rank.
    """
    raise NotImplementedError("pipeline_parallel, task zero_bubble: see section 9 of the handout")
