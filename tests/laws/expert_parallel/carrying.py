"""What travels: which calls, how many bytes, to whom; and how a broken law about it is said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grader.errors import CourseError
from grader.records import ITEMSIZE, Event
from tests.laws.groups import group_of
from tests.laws.sentences import broken


def assert_all_took_part(seen: Any) -> None:
    """Nobody waits for a rank that has nothing to send or to receive."""
    if seen.fault is None or seen.fault.kind not in ("deadlock", "mismatch", "silent", "exited"):
        return
    raise broken(
        f"The ranks don't meet (a hang): {seen.fault.sentence}",
        "Expected: every rank makes the same calls of all_to_all_single, forward and backward, also with no rows.",
        "A rank that has no tokens, or whose experts get none, takes another road than the others, who wait for it.",
        "No `if` around an exchange or an expert; and keep the rows in the graph, even if there are none: backward calls what it leads to.",
        "\n".join(seen.fault.lines),
    )


def require(seen: Any, expected: str, diagnosis: str) -> None:
    """The run has ended well; if not, its fault is said in a law's own words. A stub's is left as it is."""
    if seen.fault is not None and "NotImplementedError" not in seen.fault.sentence:
        raise broken(seen.fault.sentence, f"Expected: {expected}.", diagnosis, "", "\n".join(seen.fault.lines))


def exchanges(seen: Any, rank: int, phase: str) -> list[Event]:
    """The calls of one rank in a phase; LawBroken if one is no all_to_all_single."""
    calls = seen.events(rank=rank, phase=phase, kind="issue")
    for event in calls:
        if event.op != "all_to_all":
            raise broken(
                f"{phase}: rank {rank} calls {event.op}{where(event)}.",
                "Allowed: all_to_all_single, and nothing else.",
                f"{event.op} is none of the exchanges that are needed here.",
                "Section 2, rule 4: rows and counts travel by all_to_all_single with split sizes.",
            )
    return list(calls)


def where(event: Event) -> str:
    """The submission's line, in brackets."""
    return f" ({event.at})" if event.at else ""


def judge_rows(
    seen: Any, phase: str, rank: int, *, rows: Sequence[Sequence[int]], row_bytes: int, dtype: str, num_counts: int = 0,
    num_choices: int | None = None,
) -> None:  # fmt: skip
    """One rank's calls in a phase: for each of `rows` (how many for each place) one exchange, and counts before them if there are any.

    num_choices: how many rows there would be if nothing were dropped.
    """
    n = len(rows[0]) if rows else seen.world_size
    if n == 1:
        raise CourseError("a group of one says nothing about volume")
    calls = exchanges(seen, rank, phase)
    counts = [event for event in calls if event.dtype.startswith(("int", "uint"))] if num_counts else []
    moving = [event for event in calls if event not in counts]
    words = ", ".join(f"{e.op} {e.dtype}{list(e.shape)}{where(e)}" for e in calls) or "nothing is called"
    expected = f"{len(rows)} for rows" + (" and before them one for counts" if num_counts else " and none for counts")
    if len(moving) != len(rows) or len(counts) != bool(num_counts):
        raise broken(
            f"{phase}: rank {rank} makes {len(calls)} exchanges: {words}.",
            f"Expected: {expected}.",
            f"{'More' if len(calls) > len(rows) + bool(num_counts) else 'Fewer or other'} exchanges than are needed.",
            "One all_to_all_single for rows in each pass; counts travel once, forward, as integers, and backward has the splits in ctx.",
        )
    if num_counts:
        judge_counts(phase, rank, counts[0], num_counts, is_first=calls[0] is counts[0])
    for event, splits in zip(moving, rows, strict=True):
        judge_one(phase, rank, event, list(splits), row_bytes, dtype, num_choices)


def judge_counts(phase: str, rank: int, event: Event, num_experts: int, *, is_first: bool) -> None:
    """The counts' exchange: no more than 8 bytes for each expert, and before the rows."""
    if not is_first or not 0 < event.num_bytes <= 8 * num_experts:
        late = "" if is_first else ", after rows"
        raise broken(
            f"{phase}: rank {rank} puts {event.num_bytes} bytes into the counts' exchange{where(event)}{late}.",
            f"Allowed: at most {8 * num_experts}, for {num_experts} experts, before the rows travel.",
            "The exchange of counts carries more, or comes later, than one number for each expert.",
            "Each rank needs to know only how many rows come for its own experts, from every rank.",
        )


def judge_one(phase: str, rank: int, event: Event, rows: list[int], row_bytes: int, dtype: str, num_choices: int | None) -> None:
    """One exchange of rows: dtype, bytes, and to whom they go."""
    if event.num_bytes and event.dtype != dtype:
        raise broken(
            f"{phase}: rank {rank} hands all_to_all_single a {event.dtype} tensor{where(event)}.",
            f"Expected: {dtype}, the dtype of the rows ({ITEMSIZE[dtype]} bytes a number).",
            "What travels has another dtype than the rows.",
            "Is something converted before it travels?",
        )
    expected, got = sum(rows) * row_bytes, event.num_bytes
    if got != expected:
        raise broken(
            f"{phase}: rank {rank} puts {got} bytes into all_to_all_single {event.dtype}{list(event.shape)}{where(event)}.",
            f"Expected: {expected} bytes: {sum(rows)} rows of {row_bytes} bytes.",
            _about_bytes(got / row_bytes, rows, event.group.index(rank) if rank in event.group else None, num_choices),
            "One row for each kept choice, none for a dropped one, and no padding (section 2, rule 5).",
        )
    split, wanted = event.facts.get("split"), [count * row_bytes for count in rows]
    if split and split != wanted:
        raise broken(
            f"{phase}: rank {rank} sends {split} bytes to the ranks of its group{where(event)}.",
            f"Expected: {wanted}.",
            "The bytes are as many as they should be, and go to other ranks.",
            "Expert e lives on rank e // L; backward sends to each rank what forward received from it.",
        )


def _about_bytes(got: float, rows: list[int], place: int | None, num_choices: int | None) -> str:
    """What as many rows' bytes may be."""
    if got == num_choices:
        return f"That is a row for each of this rank's {num_choices} choices: dropped ones travel too."
    if place is not None and got == sum(rows) - rows[place]:
        return "That is as many as go to other ranks: the rank's own rows are left out of the exchange."
    ratio = f"That is {got / sum(rows):.4g} times the bytes of the routed rows" if sum(rows) else "No row is to travel here"
    return f"{ratio}: {'more travels than is kept; is it padded?' if got > sum(rows) else 'rows are missing.'}"


def judge_clean(seen: Any, phases: Sequence[str]) -> None:
    """What travels in these phases is contiguous and goes through the group given."""
    for phase in phases:
        for event in seen.events(phase=phase, kind="issue"):
            members = tuple(group_of(seen, event.rank))
            if event.facts.get("strided"):
                raise broken(
                    f"{phase}: rank {event.rank} hands {event.op} a tensor that isn't contiguous{where(event)}.",
                    "Expected: contiguous tensors only.",
                    "A tensor that isn't contiguous goes to the network: its memory is not the rows, and NCCL refuses it.",
                    "Take x.contiguous(), and gradient.contiguous(): a sum's gradient has strides of 0.",
                )
            if event.group != members:
                raise broken(
                    f"{phase}: rank {event.rank} calls {event.op} in the group of ranks {list(event.group)}{where(event)}.",
                    f"Expected: the group that was given, of ranks {list(members)}.",
                    "A call goes through another group than the one given.",
                    "Is `group` handed to every call, get_rank and get_world_size included?",
                )
