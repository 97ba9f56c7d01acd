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
    # region solution bubble_fraction
    last_stage = max((action.stage for actions in schedule for action in actions), default=0)
    end_s: dict[Action, float] = {}  # when each action is done; what isn't in it, isn't done yet
    clock_s, position = [0.0] * len(schedule), [0] * len(schedule)

    # Every rank goes as far as it can, then the next, until nobody gets any further. The order of the visits makes no difference.
    moves = True
    while moves:
        moves = False
        for rank, actions in enumerate(schedule):
            while position[rank] < len(actions):
                action = actions[position[rank]]
                needed = needed_by(action, last_stage)
                # A gradient may come from a whole backward or from its first half: one of the ways is enough.
                if not all(any(way in end_s for way in ways) for ways in needed):
                    break
                arrivals_s = [end_s[way] for ways in needed for way in ways if way in end_s]
                end_s[action] = clock_s[rank] = max([clock_s[rank], *arrivals_s]) + costs[action.kind][action.stage]
                position[rank] += 1
                moves = True

    stuck = [(rank, actions[position[rank]]) for rank, actions in enumerate(schedule) if position[rank] < len(actions)]
    if stuck:
        raise ValueError(f"the schedule comes to no end; (rank, what it can't begin): {stuck}")
    total_s = len(schedule) * max(clock_s, default=0.0)
    busy_s = sum(costs[action.kind][action.stage] for actions in schedule for action in actions)
    return (total_s - busy_s) / total_s if total_s else 0.0
    # endregion


def needed_by(action: Action, last_stage: int) -> list[list[Action]]:
    """Return what must be done before `action`, each in the ways in which it may have been done. A helper: never called by the tests."""
    # region solution needed_by
    kind, stage, micro_batch = action
    if kind == FORWARD:
        return [[Action(FORWARD, stage - 1, micro_batch)]] if stage > 0 else []
    if kind == BACKWARD_WEIGHT:
        return [[Action(BACKWARD_INPUT, stage, micro_batch)]]
    # A backward, whole or its first half, needs the stage's own graph, and the gradient of its output from the stage behind.
    own, behind = Action(FORWARD, stage, micro_batch), [Action(half, stage + 1, micro_batch) for half in (BACKWARD, BACKWARD_INPUT)]
    return [[own], behind] if stage < last_stage else [[own]]
    # endregion


# --- task gpipe ------------------------------------------------------------------------------------------------------
def gpipe(num_ranks: int, num_micro_batches: int) -> Schedule:
    """Return the schedule with one stage per rank in which every rank does all its forwards, then all its backwards."""
    # region solution gpipe
    kinds, micro_batches = (FORWARD, BACKWARD), range(num_micro_batches)
    return [[Action(kind, rank, micro_batch) for kind in kinds for micro_batch in micro_batches] for rank in range(num_ranks)]
    # endregion


# --- task one_f_one_b ------------------------------------------------------------------------------------------------
def one_f_one_b(num_ranks: int, num_micro_batches: int) -> Schedule:
    """Return the schedule with one stage per rank in which rank r never has more than P - r micro-batches between forward and backward."""
    # region solution one_f_one_b
    schedule = []
    for rank in range(num_ranks):
        forwards = [Action(FORWARD, rank, micro_batch) for micro_batch in range(num_micro_batches)]
        backwards = [Action(BACKWARD, rank, micro_batch) for micro_batch in range(num_micro_batches)]
        # Micro-batch 0 has to pass the P-1-r stages behind before its gradient can come back: so many more forwards fill the time.
        # With fewer micro-batches than that there is nothing to fill it with.
        num_warm_up = min(num_ranks - 1 - rank, num_micro_batches)
        schedule.append(alternating(forwards, backwards, num_warm_up))
    return schedule
    # endregion


def alternating(forwards: list[Action], backwards: list[Action], num_warm_up: int) -> list[Action]:
    """Return `num_warm_up` forwards, then forward and backward in turn, then what is left. A helper: never called by the tests."""
    # region solution alternating
    actions = forwards[:num_warm_up]
    # A forward first: on the last rank it is what the backward after it needs.
    for forward, backward in zip(forwards[num_warm_up:], backwards, strict=False):
        actions += [forward, backward]
    return actions + backwards[len(forwards) - num_warm_up :]
    # endregion


# --- task interleaved ------------------------------------------------------------------------------------------------
def interleaved_one_f_one_b(num_ranks: int, num_micro_batches: int, num_chunks: int) -> Schedule:
    """Return 1F1B with `num_chunks` stages per rank: rank r has the stages r, r + P, r + 2P, …; M is a multiple of P, or ValueError."""
    # region solution interleaved_one_f_one_b
    if num_micro_batches % num_ranks:
        raise ValueError(f"{num_micro_batches} micro-batches are no multiple of {num_ranks} ranks")

    # P micro-batches through the first chunk, the same P through the second, and so on. When the first of them has passed all ranks,
    # rank 0 has just finished the P-th in the chunk before and takes it up again at once.
    groups, chunks = range(0, num_micro_batches, num_ranks), range(num_chunks)
    order = [(chunk, first + place) for first in groups for chunk in chunks for place in range(num_ranks)]
    schedule = []
    for rank in range(num_ranks):
        forwards = [Action(FORWARD, chunk * num_ranks + rank, micro_batch) for chunk, micro_batch in order]
        # Backward begins at the loss: last chunk first.
        backwards = [Action(BACKWARD, (num_chunks - 1 - chunk) * num_ranks + rank, micro_batch) for chunk, micro_batch in order]
        # P forwards in each chunk before the last, and more for the way through the ranks behind and back: one for each if messages
        # took no time; the second covers the message's way.
        num_warm_up = min(2 * (num_ranks - 1 - rank) + (num_chunks - 1) * num_ranks, len(forwards))
        schedule.append(alternating(forwards, backwards, num_warm_up))
    return schedule
    # endregion


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
        # region solution stage_init
        self.in_flight: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}  # (stage, micro-batch) -> input and output
        self.sending: list[tuple[dist.Work, torch.Tensor]] = []  # the tensor belongs to the network until the work is done
        self.own_mail: dict[tuple[str, int, int], torch.Tensor] = {}  # what goes from a stage to another on this very rank
        # endregion

    def run(
        self, schedule: Sequence[Sequence[Action]], inputs: Tensors | None = None, targets: Tensors | None = None
    ) -> torch.Tensor | None:
        """Execute this rank's part; add to each parameter's grad that of the mean loss over the micro-batches; nothing is left under way.

        inputs, targets: one for each micro-batch; given where stage 0, or the last one, lives. Returns the mean loss, detached, where the
        last stage lives, and None elsewhere. The schedule consists of FORWARD and BACKWARD and is the same on all ranks.
        """
        # region solution run
        # Every rank has an action for every micro-batch, but only one has the inputs: so their number is read off the schedule.
        num_micro_batches = len({action.micro_batch for action in schedule[self.rank]})
        losses = []
        for kind, stage, micro_batch in schedule[self.rank]:
            is_last = stage == self.num_stages - 1
            if kind == FORWARD:
                x = inputs[micro_batch] if stage == 0 else self._receive(FORWARD, stage, micro_batch)
                loss = self._forward(stage, micro_batch, x, targets[micro_batch] if is_last else None, 1 / num_micro_batches)
                losses += [loss] if is_last else []
            else:
                self._backward(stage, micro_batch, None if is_last else self._receive(BACKWARD, stage, micro_batch))
        for work, _ in self.sending:
            work.wait()
        self.sending.clear()
        return torch.stack(losses).sum() if losses else None
        # endregion

    def _forward(self, stage: int, micro_batch: int, x: torch.Tensor, target: torch.Tensor | None, share: float) -> torch.Tensor:
        """Compute a stage, keep what its backward needs, and send the output on. A helper: never called by the tests."""
        # region solution forward
        if stage > 0:
            x.requires_grad_()  # a leaf: its grad is what the stage before waits for
        output = self.stages[stage](x)
        if stage < self.num_stages - 1:
            self._send(FORWARD, stage + 1, micro_batch, output.detach())
        else:
            # The mean over micro-batches is the mean over the batch: each counts 1/M. Divided here, all gradients before are right.
            output = self.loss_function(output, target) * share
        self.in_flight[stage, micro_batch] = x, output  # and nowhere else, or the graph outlives its backward
        return output.detach()
        # endregion

    def _backward(self, stage: int, micro_batch: int, gradient: torch.Tensor | None) -> None:
        """Carry the gradient of a stage's output to its parameters and its input. A helper: never called by the tests."""
        # region solution backward
        # pop: with the output its graph goes, and with the graph the activations. That is what bounds the memory.
        x, output = self.in_flight.pop((stage, micro_batch))
        if output.requires_grad:  # not so where a first stage is frozen
            torch.autograd.backward(output, gradient)
        if stage > 0:
            self._send(BACKWARD, stage - 1, micro_batch, torch.zeros_like(x) if x.grad is None else x.grad)
        # endregion

    def _send(self, kind: str, stage: int, micro_batch: int, tensor: torch.Tensor) -> None:
        """Send what the action `kind` of `stage` waits for, and go on. A helper: never called by the tests."""
        # region solution send
        receiver = stage % self.num_ranks
        if receiver == self.rank:
            self.own_mail[kind, stage, micro_batch] = tensor
            return
        # Never wait here. A send may end only when its receive has come: in 1F1B a rank sends an activation down while its neighbour
        # sends a gradient up, and if both waited, they would wait for ever.
        tensor = tensor.contiguous()
        work = dist.isend(tensor, group=self.groups[kind], group_dst=receiver, tag=int(kind == BACKWARD))
        self.sending = [(under_way, kept) for under_way, kept in self.sending if not under_way.is_completed()]
        self.sending.append((work, tensor))
        # endregion

    def _receive(self, kind: str, stage: int, micro_batch: int) -> torch.Tensor:
        """Return what the action `kind` of `stage` waits for. A helper: never called by the tests."""
        # region solution receive
        # An activation comes from the stage before, a gradient from the stage behind.
        sender = (stage - 1 if kind == FORWARD else stage + 1) % self.num_ranks
        if sender == self.rank:
            return self.own_mail.pop((kind, stage, micro_batch))
        # With two ranks and several chunks, activations and gradients share a link, in another order at each end: hence the tag.
        tensor = torch.empty_like(self.boundary, requires_grad=False)
        dist.recv(tensor, group=self.groups[kind], group_src=sender, tag=int(kind == BACKWARD))
        return tensor
        # endregion


# --- task tied -------------------------------------------------------------------------------------------------------
def broadcast_tied_weight(weight: nn.Parameter, group: dist.ProcessGroup | None = None) -> None:
    """Make every copy of a weight that several stages share that of group rank 0, in place. Called by the owners, who are the group."""
    # region solution broadcast_tied_weight
    whole = weight.detach().contiguous()
    dist.broadcast(whole, group=group, group_src=0)
    if not weight.is_contiguous():  # then `whole` is a copy
        weight.detach().copy_(whole)
    # endregion


def all_reduce_tied_gradient(weight: nn.Parameter, group: dist.ProcessGroup | None = None) -> None:
    """Make every copy's gradient the sum over the owners, as if it were one parameter. A missing gradient (None) counts as zeros."""
    # region solution all_reduce_tied_gradient
    gradient = (torch.zeros_like(weight) if weight.grad is None else weight.grad).contiguous()
    # A sum and no mean: in one process the embedding's use and the head's would have been added up.
    dist.all_reduce(gradient, group=group)
    weight.grad = gradient
    # endregion


# --- task zero_bubble ------------------------------------------------------------------------------------------------
def zero_bubble(num_ranks: int, num_micro_batches: int) -> Schedule:
    """Return a schedule of FORWARD, BACKWARD_INPUT and BACKWARD_WEIGHT, one stage per rank, with a third of 1F1B's bubble in its memory.

    At most P micro-batches are between forward and BACKWARD_WEIGHT on any rank.
    """
    # region solution zero_bubble
    # Played tick by tick, as if all three took equally long. Nobody waits for a BACKWARD_WEIGHT, so it fills what would be idle.
    schedule: Schedule = [[] for _ in range(num_ranks)]
    num_done = [dict.fromkeys((FORWARD, BACKWARD_INPUT, BACKWARD_WEIGHT), 0) for _ in range(num_ranks)]
    while any(done[BACKWARD_WEIGHT] < num_micro_batches for done in num_done):
        before = [dict(done) for done in num_done]  # what was there when this tick began
        for rank, done in enumerate(num_done):
            num_inputs = num_micro_batches if rank == 0 else before[rank - 1][FORWARD]
            num_gradients = done[FORWARD] if rank == num_ranks - 1 else before[rank + 1][BACKWARD_INPUT]
            # As in 1F1B, P - r may wait for their input gradient; and P for their BACKWARD_WEIGHT. Forwards first: they feed all behind.
            may_begin = done[FORWARD] - done[BACKWARD_INPUT] < num_ranks - rank and done[FORWARD] - done[BACKWARD_WEIGHT] < num_ranks
            if done[FORWARD] < num_inputs and may_begin:
                kind = FORWARD
            elif done[BACKWARD_INPUT] < num_gradients:
                kind = BACKWARD_INPUT
            elif done[BACKWARD_WEIGHT] < done[BACKWARD_INPUT]:
                kind = BACKWARD_WEIGHT
            else:
                continue
            schedule[rank].append(Action(kind, rank, done[kind]))
            done[kind] += 1
    return schedule
    # endregion
