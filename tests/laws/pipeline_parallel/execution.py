"""What the laws of `executor` mean: a schedule is handed in as data, run on layers of the judge's, and watched from outside."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from grader.errors import CourseError
from grader.numerics import Hints, assert_close, assert_equal, unit_roundoff
from grader.records import ITEMSIZE, Limits
from grader.schedules import FORWARD, Action, Schedule, check, depth, from_rows, num_stages_of, simulate, to_rows
from tests.laws.pipeline_parallel.drawing import line
from tests.laws.pipeline_parallel.oracle import Answer, Array, one_process
from tests.laws.sentences import broken

NUM_ROWS, WIDTH = 3, 4  # of a micro-batch; the boundary has one more column, the micro-batch's number
FIRST_RUN = "run 0"
# Dozens of roundings, each of one unit relative to sums that cancel by a factor of ten or so. A wrong number of micro-batches or ranks is
# off by a sixteenth at least.
ROUNDINGS = 1000
SIGNIFICANT = 1e-9


def ranks_of(seen: Any) -> list[int]:
    """The ranks that take part, in the order of their places in the pipeline."""
    return list(seen.request.parameters.get("members") or range(seen.world_size))


def schedule_of(seen: Any) -> Schedule:
    """What was handed in."""
    return from_rows(seen.request.parameters["schedule"])


def run(
    observe: Any,
    schedule: Schedule,
    *,
    dtype: str = "float64",
    members: list[int] | None = None,
    before: Schedule | None = None,
    **case: Any,
) -> Any:
    """Execute `schedule`, whose P ranks are all ranks or the `members`; random layers and micro-batches.

    before: a schedule of fewer micro-batches that the same PipelineStage has run already, with gradients that are thrown away.
    """
    num_stages, num_ranks = num_stages_of(schedule), len(schedule)
    ranks = members or list(range(num_ranks))
    world_size = max(ranks) + 1
    chunks = num_stages // num_ranks
    num_micro_batches = 1 + max(action.micro_batch for action in schedule[0])
    if findings := check(schedule, num_ranks, num_micro_batches, chunks):
        raise CourseError(f"the judge hands in a schedule that isn't valid: {findings[0].sentence}")
    batch = (num_micro_batches, NUM_ROWS, WIDTH + 1)

    def inputs(rng: np.random.Generator) -> dict[str, list[Array]]:
        def only(owner: int) -> list[Array]:
            """A batch on one rank, nothing on the others."""
            drawn = rng.standard_normal(batch)
            drawn[:, :, 0] = np.arange(num_micro_batches)[:, None]
            return [(drawn if rank == owner else np.zeros(0)).astype(dtype) for rank in range(world_size)]

        def each(*shape: int) -> list[Array]:
            return [rng.standard_normal((chunks, *shape)).astype(dtype) for _ in range(world_size)]

        return {
            "weight": each(WIDTH, WIDTH),
            "bias": each(WIDTH),
            "x": only(ranks[0]),
            "target": only(ranks[(num_stages - 1) % num_ranks]),
            "boundary": [np.zeros(batch[1:], dtype)] * world_size,
        }

    words = case | ({} if members is None else {"members": members}) | ({} if before is None else {"before": to_rows(before)})
    handed = [(dtype, batch if rank == ranks[0] else (0,)) for rank in range(world_size)]
    returns = {"weight": (dtype, (chunks, WIDTH, WIDTH)), "bias": (dtype, (chunks, WIDTH)), "loss": (dtype, ()), "x": handed}
    return observe("execute", world_size=world_size, inputs=inputs, returns=returns, schedule=to_rows(schedule),
                   num_stages=num_stages, **words)  # fmt: skip


# --- values ----------------------------------------------------------------------------------------------------------
def expected(seen: Any) -> Answer:
    """One process on the very inputs."""
    ranks, num_stages = ranks_of(seen), seen.request.parameters["num_stages"]
    places = [divmod(stage, len(ranks)) for stage in range(num_stages)]  # chunk, place among the ranks

    def by_stage(name: str) -> list[Array]:
        return [np.asarray(seen.input(name, ranks[place]), np.float64)[chunk] for chunk, place in places]

    x = np.asarray(seen.input("x", ranks[0]), np.float64)
    target = np.asarray(seen.input("target", ranks[places[-1][1]]), np.float64)
    return one_process(by_stage("weight"), by_stage("bias"), x, 2 * target)  # as the probe's loss has it


def judge_values(seen: Any) -> None:
    """Gradients of every stage on every rank, the loss where the last stage lives and None elsewhere."""
    answer, ranks, case = expected(seen), ranks_of(seen), seen.request.parameters
    num_runs, frozen = case.get("num_runs", 1), case.get("frozen") or ()
    num_stages, num_micro_batches = case["num_stages"], len(seen.input("x", ranks[0]))
    unit = unit_of(seen)
    for stage in range(num_stages):
        chunk, place = divmod(stage, len(ranks))
        for name, gradients in (("weight", answer.weight), ("bias", answer.bias)):
            wanted = np.zeros_like(gradients[stage]) if stage in frozen else gradients[stage] * num_runs
            hints = Hints(
                factors={"micro-batches": num_micro_batches, "ranks": len(ranks), "runs": num_runs},
                others={f"stage {other}'s gradient": value for other, value in enumerate(gradients) if other != stage},
                suggestion="The loss of each micro-batch counts 1/M, and grad adds up over runs.",
            )
            allowed = ROUNDINGS * unit * max(1.0, float(np.abs(wanted).max()))
            what = f"the gradient of stage {stage}'s {name} on rank {ranks[place]}"
            assert_close(seen.rank(ranks[place])[name][chunk], wanted, allowed=allowed, what=what, hints=hints)
    judge_loss(seen, answer.loss, ranks[(num_stages - 1) % len(ranks)], ROUNDINGS * unit * max(1.0, answer.loss))
    judge_inputs(seen, ranks[0])


def judge_inputs(seen: Any, rank: int) -> None:
    """The caller's micro-batches are what they were."""
    assert_equal(seen.rank(rank)["x"], seen.input("x", rank), what="the inputs after run, which are the caller's")
    if marked := seen.facts(rank)["marked_inputs"]:
        raise broken(f"After run, input {marked[0]} on rank {rank} requires a gradient.", "Expected: inputs as they were.",
                     "Nobody waits for the gradient of an input of stage 0.",
                     "Only what was received becomes a leaf that requires a gradient.")  # fmt: skip


def unit_of(seen: Any) -> float:
    """The rounding unit of the run's dtype."""
    return unit_roundoff(str(seen.input("boundary", 0).dtype))


def judge_loss(seen: Any, loss: float, owner: int, allowed: float) -> None:
    """The mean loss, without a graph, on the last stage's rank; None on the others."""
    for rank in ranks_of(seen):
        facts = seen.facts(rank)
        if facts["has_loss"] != (rank == owner):
            got = "a tensor" if facts["has_loss"] else "None"
            allowed_words = f"Expected: the loss on rank {owner}, where the last stage lives; None elsewhere."
            raise broken(f"run returns {got} on rank {rank}.", allowed_words)
        if not facts["is_loss_detached"]:
            raise broken(f"The loss on rank {rank} still has its graph.", "Expected: a detached number.",
                         "The graph keeps all activations.")  # fmt: skip
    hints = Hints(factors={"micro-batches": len(seen.input("x", ranks_of(seen)[0]))}, suggestion="The mean over the micro-batches.")
    assert_close(seen.rank(owner)["loss"], np.asarray(loss), allowed=allowed, what=f"the loss on rank {owner}", hints=hints)


# --- order and time --------------------------------------------------------------------------------------------------
def judge_order(seen: Any) -> None:
    """What each rank computed, in order, is its list."""
    seen.require()
    for rank, actions in zip(ranks_of(seen), schedule_of(seen), strict=True):
        done = [event.name for event in seen.events(rank=rank, phase=FIRST_RUN, kind="compute")]
        wanted = [f"{kind} {stage} {micro_batch}" for kind, stage, micro_batch in actions]
        if done == wanted:
            continue
        place = next((n for n, (a, b) in enumerate(zip(done, wanted, strict=False)) if a != b), min(len(done), len(wanted)))
        got = spoken(done[place]) if place < len(done) else "nothing"
        due = spoken(wanted[place]) if place < len(wanted) else "nothing"
        diagnosis = "It runs an order of its own and not the schedule's." if sorted(done) == sorted(wanted) else ""
        if place < len(done) and " -1" in done[place]:
            diagnosis = "The activation holds garbage: it was read before it had arrived, or isn't what the stage before had sent."
        raise broken(f"On rank {rank}, action {place} is {got}.", f"Expected: {due}.", diagnosis,
                     "Follow schedule[rank], action by action.", where=f"rank {rank}: {line(actions, True)}")  # fmt: skip


def spoken(name: str) -> str:
    """A computation by its name in the trace."""
    kind, stage, micro_batch = name.split()
    return str(Action(kind, int(stage), int(micro_batch)))


def judge_time(seen: Any) -> None:
    """The step ends when the schedule does, if every action begins as soon as it can."""
    judge_order(seen)
    timeline = seen.virtual_time(latency_s=0.0, phase=FIRST_RUN)
    ideal = simulate(schedule_of(seen), seen.request.parameters["costs"])
    if math.isclose(timeline.end_s, ideal.end_s, rel_tol=SIGNIFICANT):
        return
    late = [rank for rank in ranks_of(seen) if max((s.end_s for s in timeline.lanes[rank]), default=0) > ideal.lanes[rank][-1].end_s]
    bubble = sum(timeline.idle_fraction(rank) for rank in ranks_of(seen)) / seen.world_size
    raise broken(
        f"With these costs a step takes {timeline.end_s:g} seconds, of which {bubble:.3f} are idle.",
        f"Expected: {float(ideal.end_s):g} seconds, {float(ideal.bubble_fraction):.3f} idle.",
        f"Rank {late[0]} loses time: it waits where its schedule doesn't." if late else "Too early: not everything was waited for.",
        "A send is started and left; a receive is waited for just before the action that needs it.",
    )


# --- messages --------------------------------------------------------------------------------------------------------
def judge_messages(seen: Any) -> None:
    """Each rank sends its activations down and its gradients up, whole and once, and nothing else."""
    schedule, ranks = schedule_of(seen), ranks_of(seen)
    num_stages, num_ranks = seen.request.parameters["num_stages"], len(ranks)
    boundary = seen.input("boundary", 0)
    boundary_bytes = boundary.size * ITEMSIZE[str(boundary.dtype)]
    for place, actions in enumerate(schedule):
        rank = ranks[place]
        strided = [event for event in seen.wire.calls(rank) if event.op == "send" and event.facts.get("strided")]
        if strided:
            at = strided[0].at
            raise broken(f"Rank {rank} sends a tensor that isn't contiguous ({at}).", "Expected: contiguous.",
                         "A stage may return any strides; NCCL refuses it, gloo may take others.", "tensor.contiguous()")  # fmt: skip
        others = seen.wire.operations(rank) - {"send", "recv"}
        if others:
            raise broken(f"Rank {rank} calls {', '.join(sorted(others))}.", "Expected: sends and receives only.",
                         "What else must be agreed on is known to all ranks: the schedule and the boundary.")  # fmt: skip
        wanted = sum(1 for kind, stage, _ in actions if num_ranks > 1 and 0 <= stage + (1 if kind == FORWARD else -1) < num_stages)
        got, got_bytes = seen.wire.num_messages(rank), seen.wire.sent_bytes(rank)
        if (got, got_bytes) != (wanted, wanted * boundary_bytes):
            num_down = sum(1 for kind, stage, _ in actions if kind == FORWARD and stage < num_stages - 1 and num_ranks > 1)
            raise broken(
                f"Rank {rank} sends {got} messages of {got_bytes} bytes together.",
                f"Expected: {wanted} of {boundary_bytes} bytes: {num_down} activations and {wanted - num_down} gradients, as the boundary.",
                f"{got / wanted:.3g} times the messages."
                if wanted and got != wanted
                else f"Another size: not {boundary.dtype}, or not the shape.",
                "Every (stage, micro-batch) sends one activation down and one gradient up; the ends of the pipeline don't.",
            )


def judge_groups(seen: Any) -> None:
    """Everything travels among the members, through the groups that were given: activations through one, gradients through the other."""
    members, schedule = tuple(ranks_of(seen)), schedule_of(seen)
    last = seen.request.parameters["num_stages"] - 1
    for rank, actions in zip(members, schedule, strict=True):
        for event in seen.wire.calls(rank):
            if tuple(event.group) != members:
                raise broken(f"Rank {rank} calls {event.op} in the group of ranks {list(event.group)}.", f"Expected: {list(members)}.",
                             "The group that was given is not used.", "Pass group=, and name peers within the group.")  # fmt: skip
        sends = Counter(str(event.facts.get("group")) for event in seen.wire.calls(rank) if event.op == "send")
        num_down = sum(kind == FORWARD and stage < last for kind, stage, _ in actions)
        num_up = sum(kind != FORWARD and stage > 0 for kind, stage, _ in actions)
        wanted = sorted(count for count in (num_down, num_up) if count)
        if sorted(sends.values()) != wanted:
            counts = " and ".join(map(str, sends.values()))
            raise broken(f"Rank {rank} sends {counts} messages through {len(sends)} group(s).",
                         f"Expected: {num_down} activations through group, {num_up} gradients through gradient_group.",
                         "With NCCL the two would stand in each other's way.", "Send gradients with group=gradient_group.")  # fmt: skip


# --- memory ----------------------------------------------------------------------------------------------------------
def judge_memory(seen: Any) -> None:
    """At most the schedule's depth of graphs and saved bytes, and nothing when run has returned."""
    for rank, actions in zip(ranks_of(seen), schedule_of(seen), strict=True):
        facts, allowed = seen.facts(rank), depth(actions)
        num_micro_batches = len({action.micro_batch for action in actions})
        num_forwards = sum(action.kind == FORWARD for action in actions)
        if facts["peak_graphs"] > allowed or facts["peak_saved_bytes"] > allowed * facts["one_saved_bytes"]:
            diagnosis = "Something keeps a micro-batch after its backward: a list of outputs or losses, or retain_graph."
            if facts["peak_graphs"] == num_forwards:
                diagnosis = f"All {num_forwards} graphs of {num_micro_batches} micro-batches are kept: none is let go after its backward."
            elif facts["peak_graphs"] == allowed + 1:
                diagnosis = "One graph more than needed: a variable still holds the last output when the next is computed."
            raise broken(
                f"On rank {rank}, {facts['peak_graphs']} graphs with {facts['peak_saved_bytes']} saved bytes are alive at once.",
                f"Allowed: {allowed}, with {allowed * facts['one_saved_bytes']} bytes: so many are in flight.",
                diagnosis,
                "Take input and output out of your books (pop) before the backward, and keep only detached losses.",
            )
        if facts["left_graphs"] or facts["left_saved_bytes"]:
            left = f"On rank {rank}, {facts['left_graphs']} graphs are left after run."
            held = "A graph lives as long as one of its outputs does: loss or output is still held."
            raise broken(left, "Expected: none.", held, "Detach what you keep.")  # fmt: skip
        _require_end(seen, rank)


def _require_end(seen: Any, rank: int) -> None:
    """The last send was waited for; those before it have ended by then, as what they carried has been answered or overtaken."""
    sends = [event for event in seen.wire.calls(rank) if event.op == "send"]
    waited = {event.call for event in seen.events(rank=rank, kind="wait")}
    if sends and sends[-1].call not in waited:
        raise broken(
            f"Rank {rank} returns from run without a wait for its last send ({sends[-1].at}).",
            "Expected: nothing is under way when run returns.",
            "The send is started and left: its tensor may be gone before it is sent.",
            "Keep every work that isend and batch_isend_irecv give you, with its tensor, and call wait() at the end of run.",
        )


HEAVY_ELEMENTS = 2**20  # 4 MiB of float32 for each micro-batch and stage
HEAVY_EXTRA_BYTES = 32 * 2**20  # eight times that: one in flight and what its arithmetic needs take half of it; sixteen don't fit


def run_heavy(observe: Any, schedule: Schedule, **case: Any) -> Any:
    """Stages that keep 4 MiB of each micro-batch in flight, in memory that doesn't hold all micro-batches."""
    num_stages, world_size = num_stages_of(schedule), len(schedule)
    batch = (1 + max(action.micro_batch for action in schedule[0]), 2, 2)

    def inputs(rng: np.random.Generator) -> dict[str, list[Array]]:
        def only(owner: int) -> list[Array]:
            drawn = rng.integers(1, 9, batch)
            return [(drawn if rank == owner else np.zeros(0)).astype(np.float32) for rank in range(world_size)]

        return {
            "factor": [np.asarray(rng.integers(1, 4), np.float32) for _ in range(world_size)],
            "x": only(0),
            "target": only(world_size - 1),
            "boundary": [np.zeros(batch[1:], np.float32)] * world_size,
        }

    return observe("heavy", world_size=world_size, inputs=inputs, returns={"factor": ("float32", ())}, schedule=to_rows(schedule),
                   num_stages=num_stages, num_elements=HEAVY_ELEMENTS, limits=Limits(extra_bytes=HEAVY_EXTRA_BYTES), **case)  # fmt: skip


def judge_heavy(seen: Any) -> None:
    """It came to its end within the memory, with the right gradients: the output is x times all factors."""
    seen.require()
    # Over NCCL Python runs ahead of the device: a send that is only queued still holds its output, and the allocator is the witness.
    counted = [] if seen.request.network.transport == "nccl" else schedule_of(seen)
    for rank, actions in enumerate(counted):
        # One for each in flight, one for each that a send has not let go yet, and the one that is being made.
        allowed = 2 * depth(actions) + 1
        for noun in ("output", "input"):
            got = seen.facts(rank)[f"peak_{noun}s"]
            if got > allowed:
                raise broken(f"On rank {rank}, {got} {noun}s of a stage are in memory at once.", f"Allowed: {allowed}.",
                             f"An {noun} is kept after its micro-batch's backward.",
                             "Keep nothing of a micro-batch that is done.")  # fmt: skip
    x, target = np.asarray(seen.input("x", 0), np.float64), np.asarray(seen.input("target", seen.world_size - 1), np.float64)
    factors = [float(seen.input("factor", rank)) for rank in range(seen.world_size)]
    chunks = seen.request.parameters["num_stages"] // seen.world_size
    output = x * math.prod(factors) ** chunks
    for rank, factor in enumerate(factors):
        wanted = np.asarray(chunks * np.mean(2 * (output - target) * output / factor))
        allowed = ROUNDINGS * unit_roundoff("float32") * float(chunks * np.mean(2 * np.abs(output - target) * output / factor))
        assert_close(seen.rank(rank)["factor"], wanted, allowed=allowed, what=f"the gradient of the factor on rank {rank}",
                     hints=Hints(factors={"micro-batches": len(x)}))  # fmt: skip
