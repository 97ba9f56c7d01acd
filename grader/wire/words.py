"""The words a rank may say, each checked for type and range before anything is done with it.

A header is one JSON object, told apart by its first key of `SHAPES`. Unknown keys are ignored: a newer worker may say more.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec

from grader.frames import BODY_LIMIT_BYTES
from grader.records import ITEMSIZE, Json, TensorSpec

TEXT_LIMIT = 4096
Text = Annotated[str, msgspec.Meta(max_length=TEXT_LIMIT)]
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**48)]
Short = Annotated[int, msgspec.Meta(ge=-1, lt=2**31)]
Spec = tuple[Text, Annotated[list[Count], msgspec.Meta(max_length=64)]]


class Malformed(Exception):
    """A rank sent what no worker of ours sends; the text completes "rank 1 ..."."""


class OperationWord(msgspec.Struct):
    """A call that will be answered: a collective or a message, a word with the store, or a gate."""

    op: Text
    id: Count
    group: Text = ""
    ranks: list[Short] = []
    me: Short = 0
    ins: list[Spec] = []
    outs: list[Spec] = []
    at: Text = ""
    reduction: Text = ""
    root: Short = -1
    peer: Short = -1
    tag: int = 0
    split: list[Count] | Count = []
    expect: list[Count] = []
    batch: Short = -1
    strided: bool = False
    subgroup: bool = False
    key: Text = ""
    keys: list[Text] = []
    amount: int = 0
    name: Text = ""
    dtype: Text = ""
    shape: list[Count] = []


class WaitWord(msgspec.Struct):
    wait: Count
    by_engine: bool = False  # autograd's engine has asked for the future: a library in C++, whose waits on it nobody sees
    how: Literal["wait", "poll", "future"] = "wait"  # "poll": somebody has looked, and seen that it is done
    at: Text = ""
    changed: list[Count] = []


class PollWord(msgspec.Struct):
    poll: Count
    times: Count = 1


class MarkWord(msgspec.Struct):
    """A probe's word. "phase": from here on the rank is in phase `name` ("" is outside of all phases)."""

    mark: Literal["phase", "compute", "join", "mark"]
    name: Text = ""
    turn: Count = 0  # phases: how many such words the probe has said before
    cost_s: float = 0.0
    facts: dict[str, Any] = {}


class EventFields(msgspec.Struct):
    """The recorder's word on gloo and NCCL: fields of `records.Event`, or kind "done" when a call has completed."""

    kind: Literal["issue", "wait", "done"]
    call: Count
    op: Text = ""
    phase: Text | None = None
    num_bytes: Count = 0
    dtype: Text = ""
    shape: list[Count] = []
    group: list[Short] = []
    peer: Short = -1
    tag: int = 0
    reduction: Text = ""
    at: Text = ""
    facts: dict[str, Any] = {}


class EventWord(msgspec.Struct):
    event: EventFields


class FrameFields(msgspec.Struct, array_like=True):
    """One line of a traceback: [file, line, function, source]."""

    file: Text
    line: Count
    function: Text
    source: Text = ""


class RaisedFields(msgspec.Struct):
    type: Text
    message: str
    frames: list[FrameFields] = []


class RaisedWord(msgspec.Struct):
    raised: RaisedFields


class AnswerWord(msgspec.Struct):
    answer: list[tuple[Text, Text, list[Count]]]
    facts: dict[str, Any] = {}


class BegunWord(msgspec.Struct):
    begun: bool


Word = OperationWord | WaitWord | PollWord | MarkWord | EventWord | RaisedWord | AnswerWord | BegunWord
SHAPES: dict[str, type[Word]] = {
    "op": OperationWord,
    "wait": WaitWord,
    "poll": PollWord,
    "mark": MarkWord,
    "event": EventWord,
    "raised": RaisedWord,
    "answer": AnswerWord,
    "begun": BegunWord,
}


def read_word(header: bytes | bytearray) -> Word:
    """The typed word in a frame's header. Malformed with the reason if it isn't one."""
    try:
        said: Json = json.loads(header.decode())
        if b"\\ud" in header.lower():  # half a character, which JSON can spell and no file, store or terminal can hold
            said = json.loads(json.dumps(said, ensure_ascii=False).encode(errors="replace"))
        shape = next(SHAPES[key] for key in SHAPES if key in said)
        return msgspec.convert(said, shape)
    except (ValueError, TypeError, RecursionError, StopIteration, msgspec.ValidationError) as error:
        raise Malformed(f"sent a frame that makes no sense ({type(error).__name__}: {str(error)[:120]})") from None


def specs_of(described: list[Spec]) -> tuple[TensorSpec, ...]:
    """Tensors as a rank describes them; Malformed for an unknown dtype or more bytes than a frame may hold."""
    specs = tuple(TensorSpec(dtype, tuple(shape)) for dtype, shape in described)
    for spec in specs:
        if spec.dtype not in ITEMSIZE:
            raise Malformed(f"names an unknown dtype ({spec.dtype[:40]})")
        if spec.num_bytes > BODY_LIMIT_BYTES:
            raise Malformed(f"speaks of a tensor of {spec.num_bytes} bytes; the wire carries {BODY_LIMIT_BYTES}")
    return specs
