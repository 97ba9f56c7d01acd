"""What travels, when it leaves, and what is held: bytes on the wire, gates that open for messages, memory that is capped."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.errors import CourseError
from grader.numerics import Hints, assert_close, sum_bound
from grader.records import ITEMSIZE, Gate, Gates, Limits, MiB
from tests.laws import traffic
from tests.laws.context_parallel.attention import words_of
from tests.laws.context_parallel.oracle import Array, Whole, draw
from tests.laws.groups import groups_of
from tests.laws.sentences import broken

WIDE = "float32"  # in which gradients of 16-bit tensors are summed


def phases_of(seen: Any) -> list[str]:
    """The phases of all calls."""
    return [f"{direction} {number}" for number in range(len(seen.request.parameters["masks"])) for direction in ("forward", "backward")]


# --- volume ----------------------------------------------------------------------------------------------------------
def block_bytes(seen: Any) -> tuple[int, int]:
    """-> (bytes of a rank's k and v, bytes of their gradients' sums)."""
    spec = seen.request.return_of("dk0", 0)
    if spec.dtype not in ("float16", "bfloat16"):
        raise CourseError("keys and sums are told apart by their dtypes: ask for 16 bits")
    num_bytes = 2 * spec.num_bytes
    return num_bytes, num_bytes // ITEMSIZE[spec.dtype] * ITEMSIZE[WIDE]


def judge_ring_volume(seen: Any, direction: str, number: int = 0) -> None:
    """Blocks of keys and values in their own dtype, N-1 hops; backward their sums in float32, N-1 to N hops. Nothing else, to neighbours.

    With a causal mask and without zigzag some of it is needed by nobody: then less will do, but not nothing.
    """
    case, dtype, phase = seen.request.parameters, seen.request.return_of("dk0", 0).dtype, f"{direction} {number}"
    block, sums = block_bytes(seen)
    for members in groups_of(seen):
        n = len(members)
        if n == 1:
            raise CourseError("a group of one says nothing about volume")
        is_all_needed = not case["masks"][number] or bool(case.get("zigzag"))
        for place, rank in enumerate(members):
            sent = traffic.sends(seen, rank, phase)
            strange = sorted({m.dtype for m in sent if m.num_bytes} - {dtype, WIDE if direction == "backward" else dtype})
            if strange:
                raise broken(
                    f"{words_of(seen, number)}, {phase}: rank {rank} sends {', '.join(strange)} for {dtype} keys and values.",
                    f"Expected: keys and values in {dtype}, and sums of their gradients in {WIDE}.",
                    "What travels has another dtype than it should, and so another number of bytes.",
                    "Is something converted before it is sent?",
                )
            if direction == "backward" and sent and not any(message.dtype == WIDE for message in sent):
                raise broken(
                    f"{words_of(seen, number)}, backward: all that rank {rank} sends is {dtype}.",
                    f"Expected: keys and values in {dtype}, and sums of their gradients in {WIDE}.",
                    f"The sums of gradients travel in {dtype}, and are rounded on every hop, or they don't travel at all.",
                    "Sums stay wide until they are at home.",
                )
            least = (n - 1) * block if is_all_needed else 0
            judge_bytes(seen, rank, phase, sent, dtype, least=least, most=(n - 1) * block, what="keys and values", unit=block)
            if direction == "backward":
                least = (n - 1) * sums if is_all_needed else 0
                judge_bytes(seen, rank, phase, sent, WIDE, least=least, most=n * sums, what="sums of gradients", unit=sums)
            neighbours = {members[(place + 1) % n], members[(place - 1) % n]}
            hint = "Blocks go from each rank to its neighbour, the next one; what belongs to a rank further on comes there hop by hop."
            if sent or is_all_needed:
                traffic.assert_peers(seen, rank, phase, allowed=neighbours, hint=hint)
        if not is_all_needed and not any(traffic.sends(seen, rank, phase) for rank in members):
            raise broken(f"{words_of(seen, number)}, {phase}: nobody sends anything.", "Needed: keys and values of earlier ranks.")


def judge_bytes(
    seen: Any, rank: int, phase: str, sent: list[Any], dtype: str, *, least: int, most: int, what: str, unit: int
) -> None:  # fmt: skip
    """One dtype's bytes of one rank."""
    got = sum(message.num_bytes for message in sent if message.dtype == dtype)
    if least <= got <= most:
        return
    allowed = f"{most}" if least == most else f"{least} to {most}"
    raise broken(
        f"{words_of(seen)}, {phase}: rank {rank} of {len(groups_of(seen)[0])} sends {got} bytes of {what} ({dtype}).",
        f"Expected: {allowed} bytes; a block has {unit}.",
        f"That is {got / unit:.3g} hops of a block: {'more than are needed' if got > most else 'too few'}.",
        "After N-1 hops every rank has had every block; sums come home after N-1 or N.",
    )


def judge_clean(seen: Any) -> None:
    """All that travels is contiguous, goes through the group given, and is waited for."""
    for members in groups_of(seen):
        for rank in members:
            for phase in phases_of(seen):
                traffic.assert_contiguous(seen, rank, phase)
                traffic.assert_group(seen, rank, phase, members)
                traffic.assert_waited(seen, rank, phase)


def judge_ulysses_volume(seen: Any) -> None:
    """(N-1)/N of q, k, v and o each way, by all-to-alls in the inputs' dtype, and nothing else."""
    dtype = seen.request.return_of("dq0", 0).dtype
    own = sum(2 * seen.request.return_of(f"d{name}0", 0).num_bytes for name in "qk")
    for members in groups_of(seen):
        n = len(members)
        for rank in members:
            for phase in phases_of(seen):
                calls = seen.wire.calls(rank, phase=phase)
                strange = [call for call in calls if call.op != "all_to_all"]
                if strange:
                    raise broken(
                        f"{words_of(seen)}, {phase}: rank {rank} calls {strange[0].op}{f' ({strange[0].at})' if strange[0].at else ''}.",
                        "Allowed: all-to-alls only.",
                        f"{strange[0].op} is called where all_to_all_single would carry an N-th as much to each rank.",
                        "Cut along one dim, join along another: exchange does both, forward and backward.",
                    )
                wrong = sorted({call.dtype for call in calls} - {dtype})
                got = sum(call.num_bytes for call in calls)
                if wrong or got != own:
                    raise broken(
                        f"{words_of(seen)}, {phase}: rank {rank} of {n} puts {got} bytes {f'of {wrong[0]} ' if wrong else ''}in.",
                        f"Expected: {own}, those of q, k, v and o in {dtype}, of which (N-1)/N travel.",
                        f"That is {got / own:.3g} times the bytes.",
                        "Key heads travel as they are, not repeated; four tensors each way.",
                    )


# --- gates -----------------------------------------------------------------------------------------------------------
GATED_SHAPE = (1, 2, 4, 4)  # of a rank's q, k and v: (B, H, S, D)
GATED = "float16"  # blocks travel in it, sums of gradients in float32: so the judge tells them apart


def run_gated(observe: Any, world_size: int, direction: str, **case: Any) -> Any:
    """One call whose kernel, at every block but the last, goes on only when this block is on its way, and before which none arrives.

    The first number of a rank's keys is its rank.
    """
    block = 2 * int(np.prod(GATED_SHAPE)) * ITEMSIZE[GATED]
    steps = tuple(Gate(f"kernel, step {step}", sent_bytes=(step + 1) * block) for step in range(world_size - 1))

    def inputs(rng: np.random.Generator) -> dict[str, list[Array]]:
        drawn = {name: [draw(rng, GATED, GATED_SHAPE) for _ in range(world_size)] for name in ("q", "k", "v", "gradient")}
        for rank in range(world_size):
            drawn["k"][rank][..., 0] = rank
        return drawn | {"signal": [np.zeros(GATED_SHAPE[-1], np.float32)] * world_size}

    returns = dict.fromkeys(("o", "dq"), (GATED, GATED_SHAPE))
    return observe("gated", world_size=world_size, inputs=inputs, returns=returns, direction=direction,
                   gates=Gates(direction, "signal", steps, hold=True, messages=GATED), **case)  # fmt: skip


def judge_nothing_else(seen: Any) -> None:
    """What opens the gates is counted by bytes: so it must be all that could have carried the blocks."""
    n, block = seen.world_size, 2 * int(np.prod(GATED_SHAPE)) * ITEMSIZE[GATED]
    for rank in range(n):
        for event in seen.wire.calls(rank):
            known = (GATED,) if event.phase == "forward" else (GATED, WIDE) if event.phase == "backward" else ()
            if event.num_bytes and event.dtype not in known:
                raise broken(
                    f"gated, {event.phase or 'outside of both passes'}: rank {rank} calls {event.op} of {event.dtype}{list(event.shape)}.",
                    f"Expected: keys and values in {GATED}, and backward sums of their gradients in {WIDE}.",
                    "Something travels beside the blocks.",
                    "What leaves before the kernel is called must be the block itself.",
                )
        for phase in ("forward", "backward"):
            got = sum(event.num_bytes for event in seen.wire.calls(rank, phase=phase) if event.op != "recv" and event.dtype == GATED)
            if got > (n - 1) * block:
                raise broken(
                    f"gated, {phase}: rank {rank} of {n} sends {got} bytes of keys and values.",
                    f"Allowed: {(n - 1) * block}, N-1 blocks.",
                    "More travels than the blocks.",
                    "What leaves before the kernel is called must be the block itself.",
                )


def judge_gated(seen: Any) -> None:
    """Every gate opened, and the judge's numbers are where a kernel that was called in time has put them."""
    direction, n = seen.request.parameters["direction"], seen.world_size
    if seen.fault is not None and seen.fault.kind == "deadlock":
        is_gate = any("opens when" in line for line in seen.fault.lines)
        raise broken(
            seen.fault.sentence,
            "Expected: when the kernel is called for a block, the block is on its way to the next rank, and nobody has waited for it.",
            f"{direction.capitalize()}, the kernel is called before the block's transfer has been started: nothing overlaps."
            if is_gate
            else f"{direction.capitalize()}, a rank waits for a transfer before it calls the kernel: nothing overlaps.",
            "Start sends and receives of the next block, call the kernel, and only then wait.",
            where="\n".join(seen.fault.lines),
        )
    judge_nothing_else(seen)
    q, k, v, gradient = ([np.asarray(seen.input(name, rank), np.float64) for rank in range(n)] for name in ("q", "k", "v", "gradient"))
    for rank in range(n):
        blocks = [int(e.facts["source"]) for e in seen.events(rank=rank, kind="mark") if e.name == "block"]
        secrets = dict(zip(blocks, [np.asarray(s, np.float64) for s in seen.gate_secrets(rank)], strict=False))
        scores = [q[rank] @ x.swapaxes(-1, -2) / np.sqrt(GATED_SHAPE[-1]) for x in k]
        weight = np.stack([np.exp(s).sum(-1) for s in scores])
        weight /= weight.sum(0)  # each block's share of the softmax
        all_k, all_v = np.concatenate(k, axis=2), np.concatenate(v, axis=2)
        shape = (*GATED_SHAPE[:3], all_k.shape[2])
        whole = Whole(q[rank], all_k, all_v, gradient[rank], np.ones(shape, bool))
        if direction == "forward":
            added = sum((weight[source][..., None] * secret for source, secret in secrets.items()), np.zeros(()))
            name, right = "o", whole.values["o"] + added
        else:
            # Every call for a block has the block's number added to its dq.
            name, right = "dq", whole.values["dq"] + sum(secrets.values(), np.zeros(()))
        # float16 has 11 bits: what is added is whole numbers up to 512 per block, rounded with the result; the rest is far smaller.
        allowed = 2.0**-10 * np.abs(right) + 2.0**-8
        what = f"{name} on rank {rank}, with the judge's numbers in it"
        hints = Hints(world_size=n, suggestion="The kernel that is handed in does all the attention, once for each block.")
        assert_close(seen.rank(rank)[name], right, allowed=allowed, what=what, hints=hints)


# --- memory ----------------------------------------------------------------------------------------------------------
NUM_RANKS, LARGE_QUERIES, LARGE_KEYS, LARGE_WIDTH = 8, 4, 4096, 32
BLOCK_BYTES = 2 * LARGE_KEYS * LARGE_WIDTH * ITEMSIZE["float32"]  # a rank's k and v: 1 MiB
# Forward holds two blocks, one in use and one that arrives; with what the process needs to receive them that is 6 MiB. All ranks' are
# eight, and what is needed to receive them.
FORWARD_BYTES = 8 * MiB
# Backward holds two blocks, and of their gradients own sums, this step's share, what leaves and what arrives, and what the kernel returns:
# 13 MiB with what the process needs. All ranks' keys, values and gradients are sixteen, and the same on top; who keeps the blocks that came
# by until the end needs over 16 with these sums.
BACKWARD_BYTES = 15 * MiB


def run_large(observe: Any, *, has_backward: bool, **case: Any) -> Any:
    """Few queries, many keys, on ranks that hold some blocks but not all; one call whose graph is kept, or also its backward."""

    def inputs(rng: np.random.Generator) -> dict[str, list[Array]]:
        shapes = {"q": LARGE_QUERIES, "k": LARGE_KEYS, "v": LARGE_KEYS, "gradient": LARGE_QUERIES}
        return {n: [draw(rng, "float32", (1, 1, count, LARGE_WIDTH)) for _ in range(NUM_RANKS)] for n, count in shapes.items()}

    returns = {"o": ("float32", (1, 1, LARGE_QUERIES, LARGE_WIDTH))}
    returns |= dict.fromkeys(("dk", "dv"), ("float32", (1, 1, LARGE_KEYS))) if has_backward else {}
    limits = Limits(extra_bytes=BACKWARD_BYTES if has_backward else FORWARD_BYTES)
    return observe("large", world_size=NUM_RANKS, inputs=inputs, returns=returns, limits=limits,
                   has_backward=has_backward, **case)  # fmt: skip


def judge_large(seen: Any) -> None:
    """It came to its end within the memory, and some of its numbers are right."""
    if seen.fault is not None and seen.fault.kind == "memory":
        what = "a forward and a backward" if seen.request.parameters["has_backward"] else "a forward"
        raise broken(f"{what} of {NUM_RANKS} ranks, with {BLOCK_BYTES} bytes of keys and values each: {seen.fault.sentence}",
                     "Allowed: the block in use and the one that arrives, and sums of gradients for as many.",
                     "More is held than a few blocks: those of all ranks, or what has come by is kept for backward.",
                     "Let each block go when the next has come; in backward they come round again.")  # fmt: skip
    seen.require()
    k, v = (np.concatenate([np.asarray(seen.input(name, rank), np.float64) for rank in range(NUM_RANKS)], axis=2) for name in "kv")
    q, gradient = (np.concatenate([np.asarray(seen.input(x, r), np.float64) for r in range(NUM_RANKS)], axis=2) for x in ("q", "gradient"))
    whole = Whole(q, k, v, gradient, np.ones((1, 1, q.shape[2], k.shape[2]), bool))
    for name in [name for name in ("o", "dk", "dv") if name in seen.request.returns]:
        values, allowed = whole.values[name], whole.allowed(name, "float32", NUM_RANKS)
        if name != "o":
            allowed = allowed.sum(-1) + sum_bound("float32", LARGE_WIDTH, np.abs(values).sum(-1))
            values = values.sum(-1)
        length = values.shape[2] // NUM_RANKS
        for rank in range(NUM_RANKS):
            own = slice(rank * length, (rank + 1) * length)
            assert_close(seen.rank(rank)[name], values[:, :, own], allowed=allowed[:, :, own], what=f"{name} on rank {rank}",
                         hints=Hints(world_size=NUM_RANKS))  # fmt: skip


# --- groups ----------------------------------------------------------------------------------------------------------
def judge_groups(seen: Any) -> None:
    """Everything goes through the group that was given."""
    judge_clean(seen)
    if not any(seen.wire.calls(rank, phase=phase) for rank in range(seen.world_size) for phase in phases_of(seen)):
        raise broken("Nobody sends anything.", "Expected: keys and values go round in each group.")
