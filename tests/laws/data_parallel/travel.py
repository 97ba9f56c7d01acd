"""What must travel: every gradient once, in its own dtype, contiguous, through the right group, in buckets of the right size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from grader.errors import LawBroken
from grader.records import ITEMSIZE, Event, num_elements
from tests.laws.data_parallel.buckets import assert_sizes
from tests.laws.data_parallel.runs import Tensors
from tests.laws.groups import members_of
from tests.laws.sentences import broken

REDUCTIONS = ("all_reduce", "reduce_scatter")
CONTROL_BYTES = 16  # of integers for each parameter: a map of the used ones


def by_dtype(tensors: Tensors, without: Iterable[str] = ()) -> dict[str, int]:
    """Bytes of the tensors of each dtype."""
    total: Counter[str] = Counter()
    for name, (dtype, shape) in tensors.items():
        total[dtype] += ITEMSIZE[dtype] * num_elements(shape) * (name not in without)
    return +total


def parts_of_call(event: Event) -> dict[str, int]:
    """Bytes of each dtype that one call puts in."""
    shapes = event.facts.get("shapes") or [[event.dtype, event.shape]]
    return by_dtype({str(number): (dtype, tuple(shape)) for number, (dtype, shape) in enumerate(shapes)})


def carried(event: Event, num_bytes: int) -> float:
    """Bytes that a rank of a ring would send for a call into which it puts `num_bytes`."""
    n = len(event.group)
    match event.op:
        case "all_reduce":
            return 2 * (n - 1) / n * num_bytes
        case "reduce_scatter":
            return (n - 1) / n * num_bytes
        case "all_gather":
            return float((n - 1) * num_bytes)
        case "send":
            return float(num_bytes)
        case "recv" | "barrier":
            return 0.0
    raise broken(
        f"rank {event.rank} calls {event.op}{f' ({event.at})' if event.at else ''} to average gradients.",
        "Expected: all_reduce, reduce_scatter and all_gather, or sends and receives.",
        "A call that doesn't average gradients, or takes more than it must.",
        "One all_reduce does it.",
    )


def is_control(dtype: str) -> bool:
    """Whether tensors of this dtype can't be gradients."""
    return dtype in ("bool", "uint8") or dtype.startswith("int")


def judge_volume(seen: Any, phase: str, gradients: dict[str, int], *, num_parameters: int) -> None:
    """Each member's calls carry `gradients` (bytes by dtype) once, exactly or up to the rounding of uneven chunks; and little else."""
    n = len(members_of(seen))
    for rank in members_of(seen):
        calls = seen.wire.calls(rank, phase=phase)
        total: Counter[str] = Counter()
        for call in calls:
            for dtype, num_bytes in parts_of_call(call).items():
                total[dtype] += num_bytes if is_control(dtype) else carried(call, num_bytes)
        judge_control(seen, rank, phase, total, num_parameters)
        is_exact = all(call.op in ("all_reduce", "barrier") for call in calls)
        for dtype in sorted({dtype for dtype in [*total, *gradients] if not is_control(dtype)}):
            expected = 2 * (n - 1) / n * gradients.get(dtype, 0)
            # Uneven chunks: each gradient, or each call, may be rounded up to whole chunks, twice.
            slack = 0.0 if is_exact else 2 * (n - 1) * ITEMSIZE[dtype] * num_parameters
            if abs(total[dtype] - expected) > slack + 1e-6:
                raise volume_broken(rank, n, phase, dtype, total[dtype], expected, len(calls))


def volume_broken(rank: int, n: int, phase: str, dtype: str, got: float, expected: float, num_calls: int) -> Exception:
    """Too much or too little of one dtype."""
    ratio = f"That is {got / expected:.4g} times what is needed" if expected else "There should be none"
    return broken(
        f"{phase}: rank {rank} of {n} has {got:g} bytes of {dtype} carried in {num_calls} calls.",
        f"Expected: {expected:g}, for every gradient once.",
        f"{ratio}: {'too little to average them all' if got < expected else 'more travels than the gradients, or in another dtype'}.",
        "Is something sent in each micro-batch, in another dtype, or once for each name of a shared parameter? Do frozen ones travel?",
    )


def judge_latencies(seen: Any, phase: str, *, num_dtypes: int) -> None:
    """On a network of nothing but latency, `phase` takes that of one all-reduce, or at most of one for each dtype."""
    each = 2 * (seen.world_size - 1)
    took = seen.virtual_time(latency_s=1.0, phase=phase).end_s
    if each - 1e-9 <= took <= num_dtypes * each + 1e-9:
        return
    raise broken(
        f"{phase}: where a message takes a second whatever its size, {seen.world_size} ranks need {took:g} seconds.",
        f"Expected: {each} seconds" + (f", up to {num_dtypes * each} for {num_dtypes} dtypes." if num_dtypes > 1 else "."),
        f"That is {took / each:.3g} times the latency of one all-reduce.",
        "Are all gradients of a dtype joined before they travel?",
    )


def judge_control(seen: Any, rank: int, phase: str, total: Counter[str], num_parameters: int) -> None:
    """Integer messages are small."""
    num_bytes = sum(count for dtype, count in total.items() if is_control(dtype))
    if num_bytes > CONTROL_BYTES * num_parameters:
        raise broken(
            f"{phase}: rank {rank} puts {num_bytes:g} bytes of integers into its calls, for {num_parameters} parameters.",
            f"Allowed: {CONTROL_BYTES} bytes for each parameter.",
            "More than a map of the used parameters travels beside the gradients.",
        )


def judge_silence(seen: Any, phase: str) -> None:
    """Nobody calls anything in `phase`, and the phase exists."""
    most_control = CONTROL_BYTES * sum(name.startswith("value/") for name in seen.request.inputs)
    for rank in members_of(seen):
        all_calls = seen.wire.calls(rank, phase=phase)
        is_quiet = sum(call.num_bytes for call in all_calls if is_control(call.dtype)) <= most_control
        calls = [call for call in all_calls if call.num_bytes and not (is_quiet and is_control(call.dtype))]
        if calls:
            where = f" ({calls[0].at})" if calls[0].at else ""
            raise broken(
                f"{phase}: rank {rank} makes {len(calls)} calls, the first {calls[0].op} of {calls[0].num_bytes} bytes{where}.",
                "Expected: none inside no_sync.",
                "Gradients travel in a micro-batch that isn't the last.",
                "Does the hook look at what no_sync has set?",
            )


def judge_contiguity(seen: Any, phase: str) -> None:
    """No call of `phase` ("": outside of all) was given a tensor that isn't contiguous."""
    for call in seen.events(phase=phase, kind="issue"):
        if call.facts.get("strided"):
            where, when = f" ({call.at})" if call.at else "", f"{phase}: " if phase else ""
            raise broken(
                f"{when}rank {call.rank} hands {call.op} a {call.dtype}{list(call.shape)} that isn't contiguous{where}.",
                "Expected: contiguous tensors only.",
                "A tensor that isn't contiguous goes to the network: NCCL refuses it.",
                "Hand over tensor.contiguous(), and copy_ what came back to where it belongs.",
            )


def judge_group(seen: Any, phase: str) -> None:
    """Everything in `phase` goes through the group of the members, and they do call something."""
    members = tuple(members_of(seen))
    for rank in members:
        groups = {call.group for call in seen.wire.calls(rank, phase=phase)}
        if groups != {members}:
            strange = ", ".join(str(list(group)) for group in sorted(groups - {members})) or "nobody"
            raise broken(
                f"{phase}: rank {rank} speaks with {strange}.",
                f"Expected: the group that was given, of ranks {list(members)}.",
                "A call goes through another group than the one given.",
                "Is `group` handed to every call, the constructor's broadcasts included?",
            )


def judge_wire_buckets(seen: Any, phase: str, trained: Tensors, bucket_bytes: int) -> None:
    """What each rank reduces in `phase`, in order, are stretches of the reversed parameters of one dtype, cut as the cap says."""
    for rank in members_of(seen):
        calls = [call for call in seen.wire.calls(rank, phase=phase) if call.op in REDUCTIONS and not is_control(call.dtype)]
        for dtype in sorted({dtype for dtype, _ in trained.values()}):
            sizes = [ITEMSIZE[dtype] * num_elements(shape) for kind, shape in reversed(trained.values()) if kind == dtype]
            sent = [call.num_bytes for call in calls if call.dtype == dtype]
            words = f"{phase}: rank {rank}, {dtype}, bucket_bytes={bucket_bytes}"
            cut = stretches(sizes, sent, words, padding_bytes=seen.world_size * ITEMSIZE[dtype])
            try:
                assert_sizes([bucket[::-1] for bucket in reversed(cut)], bucket_bytes, words)  # filled from the first parameter on
            except LawBroken:
                assert_sizes(cut, bucket_bytes, words)


def stretches(sizes: Sequence[int], sent: Sequence[int], words: str, padding_bytes: int) -> list[list[int]]:
    """The parameters' bytes cut into the buckets of `sent` bytes each; a bucket may be padded by less than `padding_bytes`."""
    cut, ahead = [], list(sizes)
    for num_bytes in sent:
        bucket: list[int] = []
        while ahead and sum(bucket) + ahead[0] <= num_bytes:
            bucket.append(ahead.pop(0))
        cut.append(bucket)
        if not bucket or num_bytes - sum(bucket) >= padding_bytes:
            break
    else:
        if not ahead:
            return cut
    raise broken(
        f"{words}: reductions of {', '.join(map(str, sent)) or 'no'} bytes.",
        f"Expected: stretches of the gradients, last parameters first, which have {', '.join(map(str, sizes))} bytes.",
        "What travels are not the buckets of section 7.",
        "Is each bucket one call, and are the parameters reversed?",
    )
