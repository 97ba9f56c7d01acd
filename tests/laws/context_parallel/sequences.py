"""Zigzag parts, shards of tokens, targets and positions; and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.numerics import Hints, assert_equal
from grader.records import num_elements
from tests.laws import traffic
from tests.laws.context_parallel.oracle import Array, places
from tests.laws.groups import groups_of
from tests.laws.sentences import broken

Case = dict[str, Any]


def place_of(seen: Any, rank: int) -> tuple[int, list[int]]:
    """-> (a rank's place in its group, the group's ranks)."""
    members = next(members for members in groups_of(seen) if rank in members)
    return members.index(rank), members


def members_of(seen: Any) -> list[int]:
    """All ranks that are in a group."""
    return [rank for members in groups_of(seen) for rank in members]


def spoken(groups: list[list[int]] | None) -> dict[str, Any]:
    """The words of a request about its groups."""
    return {} if groups is None else {"groups": groups}


# --- zigzag ----------------------------------------------------------------------------------------------------------
def run_split(
    observe: Any, world_size: int, shapes: list[tuple[tuple[int, ...], int | None, str]], *,
    groups: list[list[int]] | None = None, **case: Any,
) -> Any:  # fmt: skip
    """zigzag_split of wholes of these shapes along a dim (None: not said), in a dtype; and zigzag_restore."""
    n = len(groups[0]) if groups else world_size

    def inputs(rng: np.random.Generator) -> dict[str, Array]:
        return {f"x{number}": numbered(rng, shape, dtype) for number, (shape, _, dtype) in enumerate(shapes)}

    returns: dict[str, Any] = {}
    cases: list[Case] = []
    for number, (shape, dim, dtype) in enumerate(shapes):
        part = list(shape)
        part[1 if dim is None else dim] //= n
        returns |= {f"part{number}": (dtype, tuple(part)), f"whole{number}": (dtype, shape)}
        returns |= {f"dx{number}": (dtype, shape)} if dtype.startswith("float") else {}
        cases.append({"dim": dim, "part": part})
    return observe("split", world_size=world_size, inputs=inputs, returns=returns, cases=cases, **spoken(groups), **case)


def numbered(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Different numbers."""
    return rng.permutation(num_elements(shape)).reshape(shape).astype(dtype)


def judge_split(seen: Any) -> None:
    """Parts have chunks r and 2N-1-r, in memory of their own, and a gradient."""
    require_dims(seen)
    judge_silence(seen, "zigzag_split", "split")
    for number, case in enumerate(seen.request.parameters["cases"]):
        axis = 1 if case["dim"] is None else case["dim"]
        for rank in members_of(seen):
            place, members = place_of(seen, rank)
            whole, n = seen.input(f"x{number}", rank), len(members)
            parts = [np.take(whole, places(other, n, case["part"][axis], zigzag=True), axis) for other in range(n)]
            plain = np.take(whole, places(place, n, case["part"][axis], zigzag=False), axis)
            others = {f"what belongs on rank {members[other]}": part for other, part in enumerate(parts) if other != place}
            swapped = np.concatenate(np.split(parts[place], 2, axis)[::-1], axis)
            hints = Hints(
                others=others | {"a contiguous part": plain, "the two chunks in the other order": swapped},
                suggestion="2N chunks; rank r has the r-th and then the r-th from the end.",
            )
            hints = hints if n > 1 else Hints()
            what = f"zigzag_split along dim {axis}: the part of rank {rank}, chunks {place} and {2 * n - 1 - place} of {2 * n}"
            assert_equal(seen.rank(rank)[f"part{number}"], parts[place], what=what, hints=hints)
            judge_own(seen, rank, number)
            if f"dx{number}" in seen.request.returns:
                here = np.zeros(whole.shape[axis], bool)
                here[places(place, n, case["part"][axis], zigzag=True)] = True
                right = np.moveaxis(np.where(here, np.moveaxis(whole, axis, -1), 0), -1, axis)
                what = f"zigzag_split along dim {axis}: the gradient of x on rank {rank} if that of its part is the part itself"
                assert_equal(seen.rank(rank)[f"dx{number}"], right, what=what, hints=Hints(suggestion="Is the part detached from x?"))


def judge_silence(seen: Any, function: str, phase: str) -> None:
    """Every rank has the whole: nothing is called."""
    for rank in members_of(seen):
        calls = seen.wire.calls(rank, phase=phase)
        if calls:
            raise broken(f"{function}: rank {rank} calls {calls[0].op}.", "Allowed: nothing, for every rank has the whole.",
                         "Something travels that every rank has.", "Cut out of what is here.")  # fmt: skip


def require_dims(seen: Any) -> None:
    """A program that has fallen is told along which dims it was asked to cut."""
    if seen.fault is not None and seen.fault.kind == "raised":
        dims = ", ".join(str(1 if case["dim"] is None else case["dim"]) for case in seen.request.parameters["cases"])
        raise broken(f"zigzag_split and zigzag_restore along dim {dims}: {seen.fault.sentence}", "Expected: any dim.",
                     "A part can't be cut, or not be restored, along the dim that is given.",
                     "Is `dim` handed to chunk and cat?")  # fmt: skip


def judge_own(seen: Any, rank: int, number: int) -> None:
    """The part is contiguous, and behind it is its own memory and no more."""
    facts, expected = seen.facts(rank), seen.request.return_of(f"part{number}", rank).num_bytes
    if facts["own"][number] and facts["num_bytes"][number] == expected:
        return
    num_bytes = facts["num_bytes"][number]
    found = "is not contiguous" if num_bytes < 0 else f"lies in {num_bytes} bytes of memory" + ", the whole's" * (not facts["own"][number])
    raise broken(f"zigzag_split: the part on rank {rank} {found}.", f"Expected: contiguous, in {expected} bytes of its own.",
                 "A part is a view of the whole, and keeps it alive." if num_bytes >= 0 else "A part lies in memory as the whole does.",
                 "torch.cat of chunks makes a new tensor, but may keep a layout such as channels_last; a slice makes none.")  # fmt: skip


def judge_restored(seen: Any) -> None:
    """The whole on every rank, from parts that may lie as they like."""
    require_dims(seen)
    for rank in members_of(seen):
        traffic.assert_contiguous(seen, rank, "restore")
    for number, case in enumerate(seen.request.parameters["cases"]):
        for rank in members_of(seen):
            n = len(place_of(seen, rank)[1])
            hints = Hints(
                world_size=n, suggestion="First chunks in the order of the ranks, then second ones from the last rank to the first."
            )
            what = f"zigzag_restore along dim {1 if case['dim'] is None else case['dim']}: the whole on rank {rank}"
            assert_equal(seen.rank(rank)[f"whole{number}"], seen.input(f"x{number}", rank), what=what, hints=hints)


# --- shards ----------------------------------------------------------------------------------------------------------
def run_shard(observe: Any, world_size: int, cases: list[Case], *, groups: list[list[int]] | None = None, **words: Any) -> Any:
    """cases: {"num_tokens", "zigzag", "ignore_index", "positions": whether they are given}; the last two need not be said."""
    n = len(groups[0]) if groups else world_size

    def inputs(rng: np.random.Generator) -> dict[str, Array]:
        drawn = {}
        for number, case in enumerate(cases):
            shape = (2, case["num_tokens"])
            tokens = rng.integers(1, 1000, shape)
            # Labels are not the tokens: a place that is not to be learnt, and what the tokens don't say.
            labels = np.where(rng.random(shape) < 0.2, case.get("ignore_index", -100), rng.integers(1, 1000, shape))
            drawn |= {f"tokens{number}": tokens, f"labels{number}": labels}
            if case.get("positions"):
                drawn[f"positions{number}"] = rng.integers(1, 1000, shape[1])
        return drawn

    returns: dict[str, Any] = {}
    probed: list[Case] = []
    for number, case in enumerate(cases):
        length = length_of(case, n)
        returns |= {f"{name}{number}": ("int64", (2, length)) for name in ("tokens", "targets")} | {
            f"positions{number}": ("int64", (length,))
        }
        returns |= {f"{name}{number} after": ("int64", (2, case["num_tokens"])) for name in ("tokens", "labels")}
        options = {key: case[key] for key in ("zigzag", "ignore_index") if key in case}
        probed.append({"options": options, "length": length, "num_tokens": case["num_tokens"]})
    return observe("shard", world_size=world_size, inputs=inputs, returns=returns, cases=probed, **spoken(groups), **words)


def length_of(case: Case, n: int) -> int:
    """Tokens on a rank, padding included."""
    multiple = 2 * n if case.get("zigzag") else n
    return -(-case["num_tokens"] // multiple) * multiple // n


def judge_shard(seen: Any, names: tuple[str, ...] = ("tokens", "targets", "positions")) -> None:
    """These parts of every case on every rank; and inputs that stay as they were."""
    judge_silence(seen, "shard_sequence", "shard")
    for number, case in enumerate(seen.request.parameters["cases"]):
        options, num_tokens = case["options"], case["num_tokens"]
        for rank in members_of(seen):
            place, members = place_of(seen, rank)
            n, length = len(members), case["length"]
            where = places(place, n, length, zigzag=bool(options.get("zigzag")))
            missing = length * n - num_tokens
            wholes = wholes_of(seen, number, rank, options.get("ignore_index", -100), missing)
            own = {name: whole[..., where] for name, whole in wholes.items()}
            words = f"{num_tokens} tokens on {n} ranks{', zigzag' if options.get('zigzag') else ''}"
            judge_one_shard(seen, number, rank, own, names, words, options.get("ignore_index", -100))
            for name in ("tokens", "labels"):
                got, before = seen.rank(rank)[f"{name}{number} after"], seen.input(f"{name}{number}", rank)
                assert_equal(got, before, what=f"shard_sequence, {words}: the caller's {name} on rank {rank} afterwards")


def wholes_of(seen: Any, number: int, rank: int, ignore_index: int, missing: int) -> dict[str, Array]:
    """The padded whole, and what other orders of shifting and cutting would make of the targets."""
    tokens, labels = seen.input(f"tokens{number}", rank), seen.input(f"labels{number}", rank)
    given = f"positions{number}" in seen.request.inputs
    positions = seen.input(f"positions{number}", rank) if given else np.arange(tokens.shape[1])
    behind = ((0, 0), (0, missing))
    targets = np.concatenate([labels[:, 1:], np.full((len(labels), 1), ignore_index)], 1)
    padded = {"tokens": np.pad(tokens, behind), "targets": np.pad(targets, behind, constant_values=ignore_index)}
    return padded | {"positions": np.pad(positions, behind[1:]), "labels": np.pad(labels, behind, constant_values=ignore_index)}


def judge_one_shard(
    seen: Any, number: int, rank: int, own: dict[str, Array], names: tuple[str, ...], words: str, ignore_index: int
) -> None:
    """What one rank got of one case."""
    for name in names:
        others, suggestion = {}, "Cut and pad it as the tokens."
        if name == "targets":
            labels = own["labels"]
            ignored = np.full_like(labels[:, -1:], ignore_index)
            others["the labels, not shifted"] = labels
            others["labels shifted within the part"] = np.concatenate([labels[:, 1:], ignored], 1)
            others["labels shifted round the part"] = np.roll(labels, -1, 1)
            suggestion = (
                "Shift the whole sequence's labels by one, pad, then cut: the target of a rank's last token is another rank's label."
            )
        elif name == "positions":
            others["0, 1, … on every rank"] = np.arange(own[name].shape[-1])
            suggestion = "Positions count along the whole sequence, or are those given; cut them as the tokens; padding has 0."
        others = {key: value for key, value in others.items() if not np.array_equal(value, own[name])}
        what = f"shard_sequence, {words}: {name} of rank {rank}{f' (ignore_index {ignore_index})' if name == 'targets' else ''}"
        assert_equal(seen.rank(rank)[f"{name}{number}"], own[name], what=what, hints=Hints(others=others, suggestion=suggestion))


def judge_padding(seen: Any) -> None:
    """As judge_shard; a length that isn't the shortest possible is told as such, and so is a refusal."""
    if seen.fault is not None and any(word in seen.fault.sentence for word in ("ValueError", "was asked for")):
        raise broken(f"shard_sequence: {seen.fault.sentence}", "Expected: any T is padded up to the next multiple of N (2N with zigzag).",
                     "An uneven T is refused, or padded to another length.",
                     "As few places as needed: -T % N, or -T % (2N).")  # fmt: skip
    judge_shard(seen)
    for rank in members_of(seen):
        if not all(seen.facts(rank)["own"]):
            raise broken(f"shard_sequence: a part on rank {rank} is a view of the whole.", "Expected: memory of its own.",
                         "A view keeps the whole sequence alive on every rank.", "Clone it.")  # fmt: skip


# --- refusals --------------------------------------------------------------------------------------------------------
def refusal(function: str, shapes: list[tuple[int, ...]], numbers: list[int], **options: Any) -> Case:
    """A call that can't be done; numbers: what its message must name."""
    return {"function": function, "shapes": [list(shape) for shape in shapes], "numbers": numbers, "options": options}


def run_refusals(observe: Any, world_size: int, cases: list[Case], **words: Any) -> Any:
    """All of them in one run."""
    return observe("refusals", world_size=world_size, returns={}, cases=cases, **words)


def judge_refusals(seen: Any) -> None:
    """Every call of every rank ended with a ValueError that names the numbers, and nothing was sent."""
    if seen.fault and seen.fault.kind != "raised":
        raise broken(f"Instead of a ValueError: {seen.fault.sentence}", "Expected: a ValueError on every rank.",
                     "What does not fit is not refused with a ValueError, and the ranks go on.", "Check before anything is sent.",
                     "\n".join(seen.fault.lines))  # fmt: skip
    for rank in range(seen.world_size):
        for case, (kind, message) in zip(seen.request.parameters["cases"], seen.facts(rank)["raised"], strict=True):
            words = f"{case['function']} of {' and '.join(map(str, case['shapes']))} on {seen.world_size} ranks"
            if kind != "ValueError":
                raise broken(f"{words}: rank {rank} got {f'{kind}: {message}' if kind else 'no error'}.", "Expected: a ValueError.",
                             "What does not fit is not refused with a ValueError.", "Check before anything is sent.")  # fmt: skip
            missing = [number for number in case["numbers"] if str(number) not in message]
            if missing:
                raise broken(f"{words}: the ValueError says {message!r}.",
                             f"Expected: a message with {' and '.join(map(str, case['numbers']))}.",
                             "The ValueError does not name both numbers.", "Say what doesn't fit, and into what.")  # fmt: skip
        if seen.wire.calls(rank, phase="refusal"):
            raise broken(f"rank {rank} sends something before it refuses.", "Expected: nothing is sent.",
                         "Something is sent before the ValueError.", "Check first.")  # fmt: skip
