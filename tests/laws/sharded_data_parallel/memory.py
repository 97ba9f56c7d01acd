"""What one rank of many may hold. With a limit on its memory, each moment asks for all that must still be free ("ballast")."""

from __future__ import annotations

from typing import Any

from grader.records import MiB
from tests.laws.sentences import broken
from tests.laws.sharded_data_parallel.runs import run_alone

LAYER = 4 * MiB  # bytes of one layer; what is looked for is larger than SLACK
SLACK = 3 * MiB  # the interpreter's and the allocator's own growth
NUM_LAYERS = 6
WHOLE = NUM_LAYERS * LAYER
NUM_ROOT_LAYERS = 1  # in a fully sharded model so many layers' bytes are the root's
ROOT = NUM_ROOT_LAYERS * LAYER
FLOAT_BYTES = 4


def weighed(observe: Any, stage: str, num_ranks: int, room_bytes: int, allowed: dict[str, int], **how: Any) -> Any:
    """A run with `room_bytes`, in which at each moment nothing but `allowed` bytes may be held."""
    ballast = {moment: room_bytes - held - SLACK for moment, held in allowed.items()}
    return run_alone(
        observe,
        stage,
        num_ranks=num_ranks,
        room_bytes=room_bytes,
        me=1,
        num_layers=NUM_LAYERS - (NUM_ROOT_LAYERS if "num_root" in how else 0),
        elements=LAYER // FLOAT_BYTES,
        ballast=ballast,
        **how,
    )


def run_zero1(observe: Any, num_ranks: int, **words: Any) -> Any:
    """Weights and gradients whole, AdamW's two moments in part; a step may flatten a few buckets."""
    part = WHOLE // num_ranks
    during_step = 2 * WHOLE + 4 * part + 4 * LAYER
    allowed = {"constructed": WHOLE, "after forward": WHOLE + 2 * part, "after step": 2 * WHOLE + 3 * part}
    return weighed(observe, "zero1", num_ranks, during_step + SLACK, allowed, bucket_bytes=LAYER, **words)


def run_zero2(observe: Any, num_ranks: int, **words: Any) -> Any:
    """Weights whole, moments and gradients in part, and in backward two flat buckets and one that is being filled."""
    part = WHOLE // num_ranks
    backward = WHOLE + 3 * part + 3 * LAYER + 2 * LAYER // num_ranks
    during_step = WHOLE + 4 * part + 4 * LAYER
    allowed = {"constructed": WHOLE, "backward": backward, "after backward": WHOLE + 3 * part, "after step": WHOLE + 3 * part}
    return weighed(observe, "zero2", num_ranks, max(backward + LAYER, during_step) + SLACK, allowed, bucket_bytes=LAYER, **words)


def fsdp_held(num_ranks: int, prefetch: int, reshard: bool = True) -> dict[str, int]:
    """Bytes at each moment: shards of weights and two moments, then gradients, and the units of section 6's table."""
    part = WHOLE // num_ranks
    root = ROOT  # stays whole until the end of backward
    forward = 3 * part + (root + LAYER * (1 + prefetch) if reshard else WHOLE)
    return {
        "constructed": part,
        "forward": forward,
        "after forward": 3 * part + (root if reshard else WHOLE),
        "backward": forward + part + LAYER + 2 * LAYER // num_ranks,
        "after backward": 4 * part,
        "after step": 4 * part,
        "after evaluation": 3 * part,
    }


def run_fsdp(observe: Any, num_ranks: int, moments: tuple[str, ...], *, prefetch: int = 1, reshard: bool = True, **words: Any) -> Any:
    """Everything in part; the constructor may hold the module that it was given, its shards and one unit more."""
    held = fsdp_held(num_ranks, prefetch, reshard)
    constructing = WHOLE + WHOLE // num_ranks + ROOT
    room = max(constructing, held["backward"] + 2 * ROOT) + SLACK
    allowed = {moment: held[moment] for moment in moments}
    how: dict[str, Any] = {"has_frozen": True} if reshard else {"reshard_after_forward": False}
    num_root = ROOT // FLOAT_BYTES
    return weighed(observe, "fsdp", num_ranks, room, allowed, prefetch=prefetch, num_root=num_root, **how, **words)


def judge_room(seen: Any) -> None:
    """The run ended well: there was room for what is allowed, and no more."""
    if seen.fault is None or seen.fault.kind != "memory":
        seen.require()
        return
    case = seen.request.parameters
    moments = [event.name for event in seen.events(rank=0, kind="mark")]
    moment = f"at the moment {moments[-1]!r} or after it" if moments else "in the constructor"
    held = {
        "zero1": "weights and gradients whole, the optimizer's state in part, and flat buckets one or two at a time",
        "zero2": "weights whole, state and gradient shards in part, at most two flat buckets, and the whole gradients of one bucket",
        "fsdp": "shards of weights, gradients and state, the unit that computes, `prefetch` other units, and one unit's flat gradients",
    }
    raise broken(
        f"{case['stage']}, one rank of {case['num_ranks']}, {moment}: more memory is held than allowed ({seen.fault.sentence}).",
        f"A rank may hold: {held[case['stage']]}.",
        "Something whole is held that should be sharded, dropped or freed by then: a copy of weights, gradients or state, or a unit.",
        "Which tensors are alive at that moment? Lists, closures and views keep their whole storage alive.",
    )


# --- at scale --------------------------------------------------------------------------------------------------------
SCALE_LAYERS, SCALE_ELEMENTS = 4, 65_537  # a prime


def run_scale(observe: Any, stage: str, num_ranks: int, **words: Any) -> Any:
    """A rank in the middle of a large world."""
    how = {"bucket_bytes": SCALE_ELEMENTS * FLOAT_BYTES} if stage != "fsdp" else {}
    return run_alone(
        observe,
        stage,
        num_ranks=num_ranks,
        me=num_ranks // 2,
        num_layers=SCALE_LAYERS,
        elements=SCALE_ELEMENTS,
        ballast={},
        **how,
        **words,
    )


def judge_scale(seen: Any) -> None:
    """Live bytes and volume of the second step are theory's."""
    case = seen.request.parameters
    n, live, carried = case["num_ranks"], seen.facts(0)["live"], seen.facts(0)["carried"]
    part = FLOAT_BYTES * SCALE_LAYERS * -(-SCALE_ELEMENTS // n)
    whole = FLOAT_BYTES * SCALE_LAYERS * SCALE_ELEMENTS
    replicated = {"zero1": 2 * whole, "zero2": whole, "fsdp": 0}[case["stage"]]
    moments = {"1 after step": replicated + 4 * part}
    if case["stage"] == "fsdp":
        moments |= {"constructed": part, "1 after forward": 3 * part, "1 after backward": 4 * part}
    for moment, most in moments.items():
        least = {"constructed": part // 2}.get(moment, 0)
        if not least <= live[moment] <= most + 4096:  # a few single numbers
            raise broken(
                f"{case['stage']}, one rank of {n}, {moment.removeprefix('1 ')}: {live[moment]} bytes are held.",
                f"Expected: at most {most}, of which {replicated} are on every rank and {part} an N-th of the weights.",
                f"That is {live[moment] / most:.3g} times what is allowed: something is not sharded.",
                "Which tensor is as large as the model on every rank?",
            )
    padded = FLOAT_BYTES * SCALE_LAYERS * -(-SCALE_ELEMENTS // n) * n
    reduced = sum(count * (2 if name.startswith("allreduce") else 1) for name, count in carried.items() if "reduce" in name)
    gathered = sum(count for name, count in carried.items() if "gather" in name or "broadcast" in name)
    for what, got, times in (("reductions", reduced, 1), ("gathers", gathered, 2 if case["stage"] == "fsdp" else 1)):
        if not times * whole <= got <= times * padded + 4096:
            raise broken(
                f"{case['stage']}, one rank of {n}: in a step {what} have {got} bytes in the whole, {got / whole:.3g} times the weights.",
                f"Expected: {times} times {whole}, up to padding ({times * padded}).",
                f"The volume of {what} is not what section 1 says.",
                "Padding to N elements for each small tensor is small only while tensors are larger than the world.",
            )
