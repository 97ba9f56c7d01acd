"""One rank's call, checked against itself: what it says it puts in is what it puts in, and it speaks for nobody else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from grader.frames import Bytes
from grader.records import TensorSpec
from grader.wire.words import Malformed, OperationWord, specs_of

if TYPE_CHECKING:
    from grader.wire.matching import Operation

REDUCING = frozenset({"all_reduce", "reduce", "reduce_scatter"})
ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})
COLLECTIVES = REDUCING | ROOTED | {"all_gather", "all_to_all", "barrier"}
MESSAGES = frozenset({"send", "recv"})
STORE = frozenset(
    {"store_set", "store_get", "store_add", "store_append", "store_check", "store_wait", "store_compare_set", "store_delete", "store_count"}
)
STORE_WRITES = frozenset({"store_set", "store_append", "store_compare_set"})
STORE_BYTES_LIMIT = 128  # that a rank may put into the store on the wire, where torch itself puts nothing: no way around the operations
STORE_WORD_BYTES = 8  # what each word that puts something in counts as besides: a number may be added, a key be there or not
STORE_VALUE_LIMIT_BYTES = 16 * 2**20
REDUCTIONS = frozenset({"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"})
MOST_TENSORS = 100_000  # of one call


class Group(NamedTuple):
    """A process group: torch's name for it and its members' global ranks, in group order."""

    name: str
    ranks: tuple[int, ...]


@dataclass(slots=True, eq=False)
class Call:
    """One rank's operation, from the moment its header is read until it is answered."""

    rank: int
    word: OperationWord
    group: Group
    ins: tuple[TensorSpec, ...] = ()
    outs: tuple[TensorSpec, ...] = ()
    num_bytes: int = 0  # that this rank puts in
    number: int = -1  # among the rank's communication calls
    phase: str = ""  # the probe's phase in which it began
    body: Bytes = field(default=b"", repr=False)
    operation: Operation | None = None
    is_answered: bool = False
    is_awaited: bool = False
    awaited_at: str = ""  # the submission's line that waits, where it is another than the one that has called
    num_polls: int = 0

    @property
    def op(self) -> str:
        return self.word.op

    @property
    def id(self) -> int:
        return self.word.id

    @property
    def root(self) -> int:
        """Group rank of the root; -1: the operation has none."""
        return self.word.root

    @property
    def peer(self) -> int:
        """Global rank of the other side of a message; -1: any source, or no message at all."""
        return self.group.ranks[self.word.peer] if self.word.peer >= 0 and self.op in MESSAGES else -1

    @property
    def split(self) -> list[int]:
        """Bytes for each member, of an all_to_all."""
        return self.word.split if isinstance(self.word.split, list) else []

    @property
    def member(self) -> int:
        """This rank's place in the group."""
        return self.word.me

    def __str__(self) -> str:
        """As a message to a student names it: "all_reduce(sum) float32[8] (ring.py:12)"."""
        word = self.word
        if self.op == "gate":  # the judge's own: its tensor tells a student nothing
            place = f"the {word.name}" if word.name.startswith("gate ") else f"the gate {word.name!r}"
            return place + (f" ({word.at})" if word.at else "")
        text = self.op + (f"({word.reduction.lower()})" if word.reduction else "")
        specs = [str(spec) for spec in (self.ins or self.outs)]
        if specs:
            text += " " + ", ".join(specs[:2]) + (f" and {len(specs) - 2} more" if len(specs) > 2 else "")
        if self.op in MESSAGES:
            text += (" to " if self.op == "send" else " from ") + (f"rank {self.peer}" if self.peer >= 0 else "any rank")
            text += f" tag {word.tag}" if word.tag else ""
        if self.op in ROOTED:
            text += f" with root {self.group.ranks[self.root]}"
        if self.op in STORE:
            text += f" {word.key or ', '.join(word.keys[:3])!r}"
        if word.subgroup:
            text += f" in group {self.group.name!r} of ranks {list(self.group.ranks)}"
        return text + (f" ({word.at})" if word.at else "")


def read_call(rank: int, world_size: int, word: OperationWord, body_bytes: int) -> Call:
    """The call behind an operation's word. Malformed if it contradicts itself, before a byte of its body is read."""
    if word.op in COLLECTIVES or word.op in MESSAGES:
        call = _communication(rank, world_size, word)
        expected_bytes = call.num_bytes
    elif word.op in STORE:
        call = Call(rank, word, Group("", ()))
        expected_bytes = body_bytes if word.op in STORE_WRITES and body_bytes <= STORE_VALUE_LIMIT_BYTES else 0
    elif word.op == "gate":
        call = Call(rank, word, Group("", ()), outs=specs_of([(word.dtype, word.shape)]))
        expected_bytes = 0
    else:
        raise Malformed(f"asks for an operation that the wire doesn't know ({word.op[:40]})")
    if body_bytes != expected_bytes:
        raise Malformed(f"sends {body_bytes} bytes with {call}, which should carry {expected_bytes}")
    return call


def total_bytes(specs: tuple[TensorSpec, ...]) -> int:
    """Bytes of all the tensors together."""
    return sum(spec.num_bytes for spec in specs)


def _communication(rank: int, world_size: int, word: OperationWord) -> Call:
    group = Group(word.group, tuple(word.ranks))
    if len(set(group.ranks)) != len(group.ranks) or not all(0 <= member < world_size for member in group.ranks):
        raise Malformed(f"names a group of ranks {word.ranks[:8]} in a world of {world_size}")
    if not (0 <= word.me < len(group.ranks) and group.ranks[word.me] == rank):
        raise Malformed("speaks as another rank")
    if not -1 <= word.peer < len(group.ranks) or not -1 <= word.root < len(group.ranks):
        wrong = word.peer if not -1 <= word.peer < len(group.ranks) else word.root
        at = f" ({word.at})" if word.at else ""
        raise Malformed(f"names member {wrong} of a group of {len(group.ranks)} in {word.op[:40]}{at}; members are counted from 0")
    if len(word.ins) > MOST_TENSORS or len(word.outs) > MOST_TENSORS:
        raise Malformed(f"passes more than {MOST_TENSORS} tensors to one call")
    call = Call(rank, word, group, specs_of(word.ins), specs_of(word.outs))
    if word.op != "recv" and (word.op != "broadcast" or word.root == word.me):
        call.num_bytes = total_bytes(call.ins)
    _check_form(call)
    return call


def _check_form(call: Call) -> None:
    """The parts that `perform` relies on are there."""
    word, op, num_members = call.word, call.op, len(call.group.ranks)
    is_root = word.root == word.me
    is_well_formed = (
        (op not in REDUCING or word.reduction in REDUCTIONS)
        and (op not in ROOTED or word.root >= 0)
        and (op != "send" or (len(call.ins) == 1 and word.peer >= 0))
        and (op != "recv" or len(call.outs) == 1)
        and (op not in ("broadcast", "all_reduce", "all_gather", "reduce", "gather", "reduce_scatter") or bool(call.ins))
        and (op != "scatter" or len(call.ins) == (num_members if is_root else 0))
        and (op != "reduce_scatter" or len(call.outs) == len(call.ins) or (len(call.outs) == 1 and len(call.ins) == num_members))
        and (op != "all_to_all" or len(call.split) == len(word.expect) == num_members)
        and (op != "all_to_all" or (sum(call.split), sum(word.expect)) == (total_bytes(call.ins), total_bytes(call.outs)))
        and (word.reduction not in ("BAND", "BOR", "BXOR", "AVG") or _fits(word.reduction, call.ins))
    )
    if not is_well_formed:
        raise Malformed(f"sends a call that lacks a part: {call.op} with {len(call.ins)} tensors in and {len(call.outs)} out")


def _fits(reduction: str, specs: tuple[TensorSpec, ...]) -> bool:
    """Whether numpy knows the reduction for these dtypes; the worker refuses the others as gloo does."""
    is_floating = [spec.dtype.startswith(("float", "bfloat")) for spec in specs]
    return all(is_floating) if reduction == "AVG" else not any(is_floating) and not any(spec.dtype.startswith("complex") for spec in specs)
