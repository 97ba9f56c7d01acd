"""Who shares a bucket: judgements on what assign_buckets returns, and on the buckets that travel."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from grader.records import ITEMSIZE
from tests.laws.data_parallel.runs import NO_DEVICE
from tests.laws.sentences import broken


def run_buckets(observe: Any, cases: Sequence[dict[str, Any]], **case: Any) -> Any:
    """One run of assign_buckets for every case: parameters as (dtype, shape, is trained), and a cap."""
    returns = {f"case_{n}": ("int64", (len(each["parameters"]), 2)) for n, each in enumerate(cases)}
    return observe("buckets", transport="none", host=NO_DEVICE, returns=returns, cases=list(cases), **case)


class Assigned:
    """What assign_buckets returned for one case."""

    def __init__(self, seen: Any, number: int) -> None:
        self.case = seen.request.parameters["cases"][number]
        self.places = seen.rank(0)[f"case_{number}"].tolist()
        self.cap_bytes = self.case["bucket_bytes"]
        self.parameters = [(dtype, math.prod(shape) * ITEMSIZE[dtype], is_trained) for dtype, shape, is_trained in self.case["parameters"]]
        self.num_named, self.num_buckets = seen.facts(0)["num_named"][number], seen.facts(0)["num_buckets"][number]
        self.words = f"assign_buckets of {len(self.parameters)} parameters with a cap of {self.cap_bytes} bytes"

    def buckets(self) -> list[list[int]]:
        """The numbers of each bucket's parameters, in its own order; empty buckets left out."""
        members: dict[int, list[tuple[int, int]]] = {}
        for parameter, (bucket, place) in enumerate(self.places):
            if bucket >= 0:
                members.setdefault(bucket, []).append((place, parameter))
        return [[parameter for _, parameter in sorted(members[bucket])] for bucket in sorted(members)]

    def dtypes(self, bucket: list[int]) -> list[str]:
        return [self.parameters[parameter][0] for parameter in bucket]

    def num_bytes(self, bucket: list[int]) -> int:
        return sum(self.parameters[parameter][1] for parameter in bucket)


def each_assignment(seen: Any) -> Iterator[Assigned]:
    """Every case of the run; LawBroken for one that assigns nothing, which no law on buckets can be true of."""
    for number in range(len(seen.request.parameters["cases"])):
        assigned = Assigned(seen, number)
        if not assigned.buckets() and any(is_trained for _, _, is_trained in assigned.parameters):
            raise broken(f"{assigned.words}: there is no bucket.", "Expected: at least one.", "Nothing is assigned.")
        yield assigned


def judge_membership(seen: Any) -> None:
    """Trained parameters in one bucket each, frozen ones in none, no bucket without parameters."""
    for assigned in each_assignment(seen):
        for number, ((bucket, _), (_, _, is_trained)) in enumerate(zip(assigned.places, assigned.parameters, strict=True)):
            if (bucket >= 0) != is_trained:
                kind, where = ("trained", "no bucket") if is_trained else ("frozen", f"bucket {bucket}")
                missing = "A parameter is missing.", "Is the last bucket, which isn't full, kept?"
                too_many = "A parameter is in a bucket that no gradient comes for.", "Skip what does not require a gradient."
                raise broken(
                    f"{assigned.words}: number {number}, which is {kind}, is in {where}.",
                    "Expected: one bucket for each parameter that requires a gradient, none for the others.",
                    *(missing if is_trained else too_many),
                )
        num_different = sum(bucket >= 0 for bucket, _ in assigned.places)
        if assigned.num_named != num_different:
            raise broken(
                f"{assigned.words}: {num_different} parameters are named {assigned.num_named} times.",
                "Expected: each once.",
                "A parameter is in two places.",
                "Is a parameter put into the old bucket and into the new one?",
            )
        if assigned.num_buckets != len(assigned.buckets()):
            raise broken(
                f"{assigned.words}: of {assigned.num_buckets} buckets {len(assigned.buckets())} have parameters.",
                "Expected: all.",
                "A bucket is empty.",
                "Is a bucket closed before it has anything in it?",
            )


def judge_order(seen: Any) -> None:
    """Within a dtype last parameters first; buckets by their last parameters."""
    for assigned in each_assignment(seen):
        buckets = assigned.buckets()
        for dtype in sorted({dtype for dtype, _, _ in assigned.parameters}):
            named = [parameter for bucket in buckets for parameter in bucket if assigned.parameters[parameter][0] == dtype]
            if named != sorted(named, reverse=True):
                raise broken(
                    f"{assigned.words}: those of {dtype} stand in the order {named}.",
                    "Expected: last parameters first.",
                    "A parameter stands before one that backward completes earlier.",
                    "Backward begins at the loss: reverse the parameters before you fill buckets.",
                )
        ends = [min(bucket) for bucket in buckets]
        if ends != sorted(ends, reverse=True):
            raise broken(
                f"{assigned.words}: the buckets are {buckets}.",
                "Expected: the order in which they can leave.",
                "A bucket stands before one that is complete earlier.",
                "A bucket leaves when its last parameter is ready: order them by that.",
            )


def judge_sizes(seen: Any) -> None:
    """Below the cap without the last parameter; two successive ones of a dtype above it together."""
    for assigned in each_assignment(seen):
        for dtype in sorted({dtype for dtype, _, _ in assigned.parameters}):
            alike = [bucket for bucket in assigned.buckets() if assigned.dtypes(bucket)[0] == dtype]
            assert_sizes([[assigned.num_bytes([p]) for p in bucket] for bucket in alike], assigned.cap_bytes, assigned.words)


def assert_sizes(buckets: Sequence[Sequence[int]], cap_bytes: int, words: str) -> None:
    """`buckets` of one dtype, each as its parameters' bytes, keep to the cap from above and from below."""
    for bucket in buckets:
        if len(bucket) > 1 and sum(bucket[:-1]) >= cap_bytes:
            raise broken(
                f"{words}: a bucket has {sum(bucket[:-1])} bytes without its last parameter.",
                f"Allowed: less than {cap_bytes}.",
                "A bucket is filled beyond the cap.",
                "Begin a new bucket when the next parameter doesn't fit, or when this one is full. Are bytes counted, or elements?",
            )
    for one, following in itertools.pairwise(buckets):
        if sum(one) + sum(following) <= cap_bytes:
            raise broken(
                f"{words}: two successive buckets have {sum(one)} and {sum(following)} bytes.",
                f"Expected: more than {cap_bytes} together.",
                "Buckets are smaller than the cap allows, and each costs a latency.",
                "Fill a bucket until the next parameter doesn't fit. Are bytes counted, or elements?",
            )


def judge_pure_dtypes(seen: Any) -> None:
    """One dtype in a bucket."""
    for assigned in each_assignment(seen):
        for bucket in assigned.buckets():
            dtypes = sorted(set(assigned.dtypes(bucket)))
            if len(dtypes) > 1:
                raise broken(
                    f"{assigned.words}: a bucket holds {' and '.join(dtypes)}.",
                    "Expected: one dtype in a bucket.",
                    "Two dtypes share a bucket.",
                    "Fill one bucket for each dtype.",
                )
