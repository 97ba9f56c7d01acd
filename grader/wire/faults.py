"""The sentences: why a run did not end well, with rank, call, shape and the student's line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from grader.records import Fault, Frame, Limits, Raised, TensorSpec
from grader.wire.matching import Operation
from grader.wire.policy import Policy
from grader.wire.referee import need_of
from grader.wire.seat import Seat, describe_exit
from grader.wire.testimony import LOST_ITS_PEER, PEER_IS_GONE, SPELLED_OUT, waits_of

NOT_THE_STUDENTS = ("/site-packages/", "/lib/python", "/grader/", "/probes/", "<")
OUT_OF_MEMORY = re.compile(r"MemoryError|can't allocate memory|DefaultCPUAllocator|Cannot allocate memory|out of memory", re.IGNORECASE)


# --- one rank that fell
def fault_of_raise(rank: int, raised: Raised, limits: Limits) -> Fault:
    """An exception left the probe; running into the memory limit is told apart."""
    where = f" at {raised.frames[-1]}" if raised.frames else ""
    if limits.extra_bytes is not None and OUT_OF_MEMORY.search(f"{raised.type}: {raised.message}"):
        allowed = f"{limits.extra_bytes / 2**20:.0f} MiB beyond what it held when its probe began"
        return Fault("memory", rank, f"rank {rank} asked for more memory than this run allows ({allowed}){where}")
    message = raised.message.strip().splitlines()
    if PEER_IS_GONE.search(raised.message):  # gloo's own text names sockets, not ranks
        message = [LOST_ITS_PEER]
    text = f": {message[0][:300]}" if message else ""
    if limits.extra_bytes is not None and raised.type in ("PermissionError", "FileNotFoundError", "OSError"):
        text += " (where memory is limited, files can't be written)"
    return Fault("raised", rank, f"rank {rank} raised {raised.type}{text}{where}")


def fault_of_exit(seat: Seat, folder: str) -> Fault:
    """It left without an answer. Of a crash, faulthandler has told the log where it was."""
    status = seat.exit_status
    is_crash = status is not None and status < 0
    seat.log.read()
    frame = innermost_frame(seat.log.text(), folder) if is_crash else None
    where = f"it was at {frame.file}:{frame.line} in {frame.function}" if frame else f"its last word was {seat.last_word}"
    sentence = f"rank {seat.rank} {describe_exit(status)} before its probe had returned; {where}"
    return Fault("crashed" if is_crash else "exited", seat.rank, sentence)


def fault_of_answer(rank: int, name: str, got: TensorSpec | None, asked: TensorSpec | None) -> Fault:
    """Its answer is not what was asked for."""
    if got is None:
        text = f"gave back no {name}, which was to be {asked}"
    elif asked is None:
        text = f"gave back {name} as {got}, which nobody asked for"
    else:
        text = f"gave back {name} as {got}; {asked} was asked for"
    return Fault("malformed", rank, f"rank {rank} {text}")


def fault_of_cpu(seat: Seat, limits: Limits, stack: str, folder: str) -> Fault:
    """It computes, and says nothing; `stack` is faulthandler's text."""
    polled = [call for call in seat.calls.values() if not call.is_answered and call.num_polls >= 1000]
    spins = f"; it polls {polled[0]} for ever" if polled else ""
    text = f"rank {seat.rank} has used {limits.cpu_s:g} s of CPU since the judge last heard from it ({seat.last_word})"
    return Fault("cpu_limit", seat.rank, f"{text}{spins}{_is_at(stack, folder)}")


def fault_of_silence(seat: Seat, limits: Limits, stack: str, folder: str) -> Fault:
    """It does nothing, and says nothing; `stack` is faulthandler's text."""
    used_s = seat.cpu_s - seat.cpu_at_word_s
    text = f"rank {seat.rank} has said nothing for {limits.wall_s:g} s and used {used_s:.2f} s of CPU meanwhile"
    text += f" (its last word was {seat.last_word})"
    return Fault("silent", seat.rank, f"{text}{_is_at(stack, folder)}")


def _is_at(stack: str, folder: str) -> str:
    frame = innermost_frame(stack, folder)
    return f"; it is at {frame.file}:{frame.line} in {frame.function}" if frame else ""


def innermost_frame(stack: str, folder: str) -> Frame | None:
    """The submission's innermost frame in faulthandler's text; without a `folder`, the first that isn't a library's."""
    folder = folder.encode("ascii", "backslashreplace").decode()  # faulthandler escapes what isn't ASCII in a path
    threads = re.split(r"\n\s*\n", stack)
    for thread in sorted(threads, key=lambda text: "Current thread" not in text):
        for path, line, function in re.findall(r'File "([^"]+)", line (\d+) in (\S+)', thread):
            if path.startswith(folder) if folder else not any(part in path for part in NOT_THE_STUDENTS):
                return Frame(PurePath(path).name, int(line), function, "")
    return None


# --- several ranks
def lines_of(seats: Sequence[Seat], policy: Policy) -> tuple[str, ...]:
    """One line for every rank that fell or waits, in rank order."""
    lines = []
    for seat in seats:
        if seat.fall is not None:
            lines.append(seat.fall.sentence)
        lines.extend(_waits_of(seat, seats, policy) if not seat.open_calls else waits_of([seat]))
    return tuple(lines)


def _waits_of(seat: Seat, seats: Sequence[Seat], policy: Policy) -> list[str]:
    texts = []
    for call in seat.waits.values():
        need = need_of(call, len(seats))
        stands = f"stands still at {call}" if call.op == "gate" else f"waits in {call}"
        waits = f"rank {seat.rank} {stands}" + (f", at {call.awaited_at}" if call.awaited_at else "")
        if need.by_judge:
            texts.append(f"{waits}, which {policy.why_held(call)}")
        elif call.operation is not None and call.operation.quarrel is not None:
            texts.append(waits)
        else:
            gone = [f"rank {rank} {seats[rank].departure}" for rank in need.ranks if not seats[rank].is_live]
            joint = " and " if need.how == "all" else " or "
            needed = joint.join(f"rank {rank}" for rank in need.ranks) or "another rank"
            texts.append(f"{waits}, which needs {needed}" + "".join(f"; {text}" for text in gone))
    return texts


def fault_of_quarrel(operation: Operation, seats: Sequence[Seat], policy: Policy) -> Fault:
    """Calls that met and don't belong together."""
    quarrel = operation.quarrel
    assert quarrel is not None
    calls = [operation.calls[member] for member in sorted(operation.calls)]
    lines = tuple(f"rank {call.rank} calls {call}" for call in sorted(calls, key=lambda call: call.rank))
    place = "" if operation.is_message else f" (collective number {operation.place + 1} of its group)"
    return Fault("mismatch", quarrel.odd.rank if quarrel.odd else -1, quarrel.sentence + place, lines)


def fault_of_deadlock(stuck: Sequence[Seat], seats: Sequence[Seat], policy: Policy) -> Fault:
    """Ranks that wait for each other, or for one that has gone."""
    texts = [text for seat in stuck for text in _waits_of(seat, seats, policy)]
    named = "; ".join(texts[:SPELLED_OUT]) + (f"; and {len(texts) - SPELLED_OUT} more" if len(texts) > SPELLED_OUT else "")
    gone = [seat.rank for seat in seats if not seat.is_live]
    rank = stuck[0].rank if len(stuck) == 1 else gone[0] if len(gone) == 1 else -1
    calls = [call for seat in stuck for call in seat.waits.values()]
    if len(stuck) == len(seats) > 1 and all(call.op == "send" for call in calls):
        whole = f"deadlock: every rank is in send (a send ends when its receive has come) and none has reached its receive: {named}"
    else:
        whole = f"deadlock: {named}"
    return Fault("deadlock", rank, whole, tuple(texts))
