"""Judgements on what ranks put on the network: how much, in which dtype, to whom, by which operations, in how many rounds.

Every one is two-sided, so that a submission which sends nothing keeps none of them.
"""

from __future__ import annotations

import math
from typing import Any

from grader.errors import LawBroken
from grader.records import Message
from tests.laws.rounds import num_rounds

TOO_LITTLE = "Are there as many steps as it takes, and does this rank send in each of them?"
FEWER_ROUNDS = "Follow one number from the rank that has it to the one that needs it: how many messages does it take, one after the other?"
SIGNIFICANT = 1e-9  # virtual time is a sum of products; nothing that it can tell apart is closer than this


def sends(seen: Any, rank: int, phase: str) -> list[Any]:
    """The sends of one rank in one phase; LawBroken if it called anything else than sends and receives."""
    others = sorted(seen.wire.operations(rank, phase=phase) - {"send", "recv"})
    if others:
        raise LawBroken(
            Message(
                seen=f"{phase}: rank {rank} calls {', '.join(others)}.",
                allowed="Allowed: sends and receives only.",
                diagnosis=f"A library collective is called: {', '.join(others)}.",
                suggestion="This is what you rebuild here: use isend and irecv, or batch_isend_irecv.",
            )
        )
    return list(seen.events(rank=rank, phase=phase, kind="issue", op="send"))


def assert_sent_elements(seen: Any, rank: int, phase: str, *, least: float, most: float, dtype: str, hint: str = "") -> None:
    """`rank` sent between `least` and `most` elements in `phase`, all of them in `dtype`."""
    messages = sends(seen, rank, phase)
    wider = sorted({message.dtype for message in messages if message.num_bytes} - {dtype})
    if wider:
        raise LawBroken(
            Message(
                seen=f"{phase}: rank {rank} sends {', '.join(wider)} for a {dtype} tensor.",
                allowed=f"Allowed: what travels has the tensor's own dtype, {dtype}.",
                diagnosis="What travels has another dtype than the tensor.",
                suggestion="Is the tensor converted before it is sent? Each conversion changes the number of bytes.",
            )
        )
    sent = sum(math.prod(message.shape) for message in messages)
    if least <= sent <= most:
        return
    nearest = most if sent > most else least
    allowed = f"exactly {most:g}" if least == most else f"{least:g} to {most:g}"
    raise LawBroken(
        Message(
            seen=f"{phase}: rank {rank} of {seen.world_size} sends {sent} elements in {len(messages)} messages.",
            allowed=f"Allowed: {allowed} elements.",
            diagnosis=_in_proportion(sent, nearest),
            suggestion=hint if sent > most else f"{TOO_LITTLE} {hint}".strip(),
        )
    )


def _in_proportion(sent: int, allowed: float) -> str:
    if not allowed:
        return "Nothing is to be sent here."
    return f"That is {sent / allowed:.4g} times the volume that is allowed{': too little to do what was asked' if sent < allowed else ''}."


def assert_sent_together(seen: Any, phase: str, *, least: int) -> None:
    """All ranks together sent at least `least` elements in `phase`."""
    sent = sum(math.prod(message.shape) for rank in range(seen.world_size) for message in sends(seen, rank, phase))
    if sent < least:
        raise LawBroken(
            Message(
                seen=f"{phase}: all {seen.world_size} ranks together send {sent} elements.",
                allowed=f"Needed: at least {least}.",
                diagnosis="That is too little to do what was asked.",
                suggestion="Does every rank's share reach every rank? Look at the last, smaller chunks.",
            )
        )


def assert_rounds(seen: Any, phase: str, *, least: int, most: int, hint: str = "") -> None:
    """`phase` takes `least` to `most` rounds."""
    rounds = num_rounds(seen, phase)
    if least <= rounds <= most:
        return
    allowed = f"exactly {most}" if least == most else f"{least} to {most}"
    raise LawBroken(
        Message(
            seen=f"{phase}: the {seen.world_size} ranks need {rounds} rounds.",
            allowed=f"Allowed: {allowed}.",
            diagnosis=_other_rounds(rounds, least, most),
            suggestion=hint if rounds > most else FEWER_ROUNDS,
        )
    )


def _other_rounds(rounds: int, least: int, most: int) -> str:
    """What a wrong number of rounds means."""
    if not rounds:
        return "No message is waited for at all."
    if rounds < least:
        return "That is fewer than the algorithm's way has hops: what arrives has not gone that way, or is not waited for."
    return f"That is {rounds / most:.4g} times the rounds that are needed." if most else "Nothing need be sent here."


def assert_time(
    seen: Any, phase: str, *, latency_s: float, bandwidth_bytes_per_s: float, expected_s: float, suspects: dict[str, float]
) -> None:
    """`phase` takes `expected_s` on that network. suspects: what went wrong -> the time that it leads to."""
    took_s = seen.virtual_time(latency_s=latency_s, bandwidth_bytes_per_s=bandwidth_bytes_per_s, phase=phase).end_s
    if math.isclose(took_s, expected_s, rel_tol=SIGNIFICANT):
        return
    guesses = [guess for guess, seconds in suspects.items() if math.isclose(took_s, seconds, rel_tol=SIGNIFICANT)]
    raise LawBroken(
        Message(
            seen=f"{phase}: with a latency of {latency_s:g} s and {bandwidth_bytes_per_s:g} bytes per second it takes {took_s:g} s.",
            allowed=f"Expected: {expected_s:g} s.",
            diagnosis=guesses[0] if guesses else f"It takes {took_s / expected_s:.4g} times as long as it should.",
            suggestion="Draw the links' time tables for three ranks, as in the handout: which link is idle, and what is it waiting for?",
        )
    )


def assert_peers(seen: Any, rank: int, phase: str, *, allowed: set[int], hint: str = "") -> None:
    """`rank` exchanged messages in `phase`, and with the global ranks in `allowed` only."""
    messages = seen.events(rank=rank, phase=phase, kind="issue")
    peers = {message.peer for message in messages if message.op in ("send", "recv") and message.peer >= 0}
    if peers and peers <= allowed:
        return
    raise LawBroken(
        Message(
            seen=f"{phase}: rank {rank} of {seen.world_size} exchanges messages with {_ranks(peers)}.",
            allowed=f"Allowed: {_ranks(allowed)}.",
            diagnosis="Messages go to other ranks than they should." if peers else "A rank exchanges no message at all.",
            suggestion=hint,
        )
    )


def assert_waited(seen: Any, rank: int, phase: str) -> None:
    """Everything that `rank` started in `phase` was waited for before the probe went on."""
    waited = {event.call for event in seen.events(rank=rank, phase=phase, kind="wait")}
    left = [event for event in seen.events(rank=rank, phase=phase, kind="issue") if event.call not in waited]
    if seen.request.network.transport == "nccl":  # a collective that isn't asynchronous is waited for inside NCCL's own queue
        left = [event for event in left if event.op in ("send", "recv")]
    if not left:
        return
    first = left[0]
    raise LawBroken(
        Message(
            seen=f"{phase}: rank {rank} returns without a wait for {len(left)} of its calls, first for a {first.op} ({first.at}).",
            allowed="Allowed: none; what was started is waited for before the function returns.",
            diagnosis=f"A {first.op} is started and never waited for.",
            suggestion="Keep every work that isend, irecv and batch_isend_irecv give you, and call wait() on each.",
            kind="not_waited",
        )
    )


def assert_contiguous(seen: Any, rank: int, phase: str) -> None:
    """What `rank` sends and receives in `phase` is contiguous, as gloo and NCCL want it."""
    for message in seen.events(rank=rank, phase=phase, kind="issue"):
        if message.facts.get("strided"):
            raise LawBroken(
                Message(
                    seen=f"{phase}: rank {rank} hands a tensor that is not contiguous to {message.op} ({message.at}).",
                    allowed="Allowed: contiguous tensors only; gloo and NCCL refuse others.",
                    diagnosis="A tensor that is not contiguous is sent or received.",
                    suggestion="Send from tensor.contiguous(), receive into memory of your own, and copy_ what has arrived.",
                )
            )


def assert_group(seen: Any, rank: int, phase: str, members: list[int]) -> None:
    """Every message of `rank` in `phase` went through the group of `members`."""
    groups = {message.group for message in seen.events(rank=rank, phase=phase, kind="issue")}
    if not groups - {tuple(members)}:
        return
    raise LawBroken(
        Message(
            seen=f"{phase}: rank {rank} sends or receives through the group of ranks {_ranks(set(min(groups - {tuple(members)})))}.",
            allowed=f"Expected: the group that was given, of ranks {_ranks(set(members))}.",
            diagnosis="A message goes through another group than the one given.",
            suggestion="Is `group` handed to every isend, irecv and P2POp?",
        )
    )


def _ranks(ranks: set[int]) -> str:
    return ", ".join(map(str, sorted(ranks))) or "nobody"
