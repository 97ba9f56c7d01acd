"""Whatever a rank sends, the judge stays alive and the rank is named."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from grader.records import GiB, Outcome, TensorSpec
from grader.wire.calls import COLLECTIVES, MESSAGES, STORE
from grader.wire.channel import Channel, Purse
from grader.wire.words import Malformed, read_word
from tests.grader.wire.launch import request_for
from tests.grader.wire.puppets import frame, lying_frame, operation, play

PATIENT = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ODD = st.one_of(
    st.sampled_from([0, -1, 1, 2**31, 2**48, 2**70, 1e308, float("nan"), True, None, "", "x", "float32", "SUM", [], {}, [1], [[1]], [[]]]),
    st.sampled_from([[["float32", [4]]], [["save", [4]]], [["float32", [-4]]], [["float32", [2**39, 2**39]]], [["float32", [0] * 65]]]),
    st.recursive(st.none() | st.integers() | st.text(max_size=4), lambda inner: st.lists(inner, max_size=3), max_leaves=6),
)
FIELDS = {
    "root": 0, "reduction": "SUM", "peer": 1, "tag": 0, "split": [8, 8], "expect": [8, 8], "name": "g", "dtype": "float32", "shape": [2],
    "key": "k", "keys": ["k"], "amount": 1, "strided": True, "batch": 0, "at": "x.py:1",
}  # fmt: skip


@st.composite
def headers(draw: st.DrawFn, rank: int = 0, number: int = 0) -> Any:
    """Calls with some fields replaced by what doesn't belong there, and other words likewise."""
    if draw(st.integers(0, 4)) == 0:
        kind = draw(st.sampled_from(["wait", "poll", "mark", "event", "raised", "answer", "begun", "nonsense"]))
        return {kind: draw(ODD), "how": draw(st.sampled_from(["wait", "future", 3])), "facts": draw(ODD), "cost_s": draw(ODD)}
    # few operations, so that the ranks' calls often meet
    op = draw(
        st.sampled_from(sorted(COLLECTIVES | MESSAGES))
        | st.sampled_from(["send", "recv", "all_reduce", "all_gather", *sorted(STORE), "gate", "x"])
    )
    header = operation(number, op, rank=rank, **FIELDS)
    for name in draw(st.lists(st.sampled_from(sorted(header)), max_size=2)):
        header[name] = draw(ODD)
    return header


@st.composite
def scripts(draw: st.DrawFn) -> list[list[tuple[Any, bytes]]]:
    """What each of two ranks says: headers and bodies, most of which fit."""
    bodies = st.sampled_from([bytes(16), bytes(16), b"", bytes(5)])
    return [[(draw(headers(rank, number)), draw(bodies)) for number in range(draw(st.integers(0, 5)))] for rank in range(2)]


def assert_blamed(outcome: Outcome, num_ranks: int = 2) -> None:
    """The run ended with a fault of the submission's, and nobody is said to have answered who has not."""
    assert outcome.fault is not None
    assert -1 <= outcome.fault.rank < num_ranks
    assert outcome.fault.sentence
    assert not any(rank.answered for rank in outcome.ranks)


@PATIENT
@given(scripts())
@example([[(operation(0, "all_reduce", reduction="MIN", ins=[["complex64", [2]]], outs=[["complex64", [2]]]), bytes(16))]] * 2)
@example(
    [[(operation(0, "reduce_scatter", reduction="SUM"), bytes(16))], [(operation(0, "reduce_scatter", rank=1, reduction="SUM"), bytes(16))]]
)
def test_no_sequence_of_odd_words_hurts_the_judge(said: list[list[tuple[Any, bytes]]]) -> None:
    """Well-formed frames with any content: the broker ends with an outcome that blames the ranks."""
    assert_blamed(play([b"".join(frame(header, body) for header, body in script) for script in said]))


@PATIENT
@given(st.binary(max_size=200), st.binary(max_size=50))
def test_no_sequence_of_bytes_hurts_the_judge(first: bytes, second: bytes) -> None:
    """Bytes that are no frames at all."""
    assert_blamed(play([first, second]))


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)).map(repr).map(str.encode)
)
def test_a_header_is_a_word_or_malformed(header: bytes) -> None:
    """Nothing else comes out of reading one."""
    try:
        read_word(header)
    except Malformed as error:
        assert str(error).startswith("sent a frame that makes no sense")


def test_nested_brackets_are_malformed_and_no_crash() -> None:
    """A parser's recursion limit is the rank's fault."""
    script = lying_frame(b"[" * 100_000, b"", 100_000, 0)
    assert "makes no sense" in play([script]).fault.sentence  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (lying_frame(b"{}", b"", 2, 2**62), "announces a frame of 2 + 4611686018427387904 bytes"),
        (lying_frame(b"{}", b"", 2**31, 0), "announces a frame of"),
        (frame(operation(0, "all_reduce", reduction="SUM"), bytes(15)), "sends 15 bytes with all_reduce(sum) float32[4], which should"),
        (frame(operation(0, "all_reduce", rank=1, reduction="SUM"), bytes(16)), "speaks as another rank"),
        (frame(operation(0, "send", peer=7), bytes(16)), "names member 7 of a group of 2 in send"),
        (frame(operation(0, "send", peer=1, ins=[["float32", [2**39, 2**39]]]), b""), "the wire carries"),
        (frame(operation(0, "send", peer=1, ins=[["save", [4]]]), bytes(16)), "unknown dtype (save)"),
        (frame(operation(0, "barrier", ins=[], outs=[])) * 2, "numbers its call 0 after 0"),
        (frame(operation(0, "store_add", key="k", amount=1)) + frame(operation(1, "store_set", key="k"), b"x")
         + frame(operation(2, "store_add", key="k", amount=1)), "adds a number to a key of the store that holds none"),
        (frame({"mark": "compute", "cost_s": -1.0}), "declares arithmetic of -1.0 s"),
        (frame({"mark": "phase", "name": "step"}) + frame({"mark": "phase", "name": "elsewhere"}), "to phase 'elsewhere' from 'step'"),
        (frame({"mark": "phase", "name": "step"}) + frame({"mark": "phase", "turn": 1}) * 2, "turns to phase '' from ''"),
        (frame({"mark": "phase", "name": "step"}) + frame({"mark": "phase", "turn": 1}) + frame({"mark": "phase", "name": "step"}),
         "turns to phase 'step' from '', which its probe doesn't"),
        (frame({"begun": True}, b"body"), "sends 4 bytes with a word that carries none"),
    ],
)  # fmt: skip
def test_a_lie_is_told_in_one_sentence(script: bytes, says: str) -> None:
    """What it sent, and what would have been right."""
    fault = play([script, b""]).fault
    assert fault is not None and (fault.kind, fault.rank) == ("malformed", 0)
    assert fault.sentence.startswith("rank 0 ") and says in fault.sentence


def test_a_line_that_was_closed_has_nothing_more() -> None:
    """What stands behind a lie is never looked at; a broker that waited for it would turn for ever beside a rank that lives."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(lying_frame(b"{}", b"", 2**31, 0) + frame({"begun": True}))
        channel = Channel(ours, lambda header, body_bytes: None, Purse())
        with pytest.raises(Malformed):
            list(channel.read())
        assert channel.has_more
        channel.is_closed = True
        assert not channel.has_more


def test_a_rank_that_talks_for_ever_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every word counts, also those that are no sign of life."""
    monkeypatch.setattr("grader.wire.trace.MOST_WORDS", 50)
    fault = play([frame({"poll": 0}) * 51, b""]).fault
    assert fault is not None and "has sent the judge more than 50 words" in fault.sentence


def test_words_that_no_file_could_hold_are_mended() -> None:
    """JSON can spell half a character; a report, a store or a terminal that got it would fail in the judge's hands."""
    said = {"raised": {"type": "Odd\ud800", "message": "\udfff", "frames": []}}
    fault = play([frame(said)]).fault
    assert fault is not None and fault.sentence.encode() == b"rank 0 raised Odd?: ?"


def test_the_store_is_no_way_around_the_operations() -> None:
    """What is put into it on the wire counts by bytes and by words; a few are let be."""
    few, many = ([frame(operation(number, "store_set", key="k"), bytes(24)) for number in range(count)] for count in (4, 5))
    assert play([b"".join(few), b""]).fault.kind != "malformed"  # type: ignore[union-attr]
    fault = play([b"".join(many), b""]).fault
    assert fault is not None and (fault.kind, fault.rank) == ("malformed", 0) and "through the rendezvous store" in fault.sentence


def test_tensors_under_way_are_bounded() -> None:
    """Sends that nobody receives fill the judge's memory up to a limit and no further."""
    script = b"".join(frame(operation(number, "send", peer=1), bytes(16)) for number in range(100))
    fault = play([script, b""], purse_bytes=1000).fault
    assert fault is not None and fault.rank == 0 and "makes the judge hold 1008 bytes" in fault.sentence


def test_announced_bytes_count_before_they_arrive() -> None:
    """A rank can't make the judge reserve more than the limit by announcing it."""
    header = json.dumps(operation(0, "send", peer=1, ins=[["uint8", [GiB]]], outs=[])).encode()
    fault = play([lying_frame(header, b"", len(header), GiB), b""], purse_bytes=1000).fault
    assert fault is not None and f"makes the judge hold {GiB} bytes" in fault.sentence


@pytest.mark.parametrize(
    ("answer", "body", "says"),
    [
        ([["y", "float32", [3]]], bytes(12), "gave back y as float32[3]; float32[4] was asked for"),
        ([["y", "float64", [4]]], bytes(32), "gave back y as float64[4]; float32[4] was asked for"),
        ([], b"", "gave back no y, which was to be float32[4]"),
        ([["y", "float32", [4]], ["z", "int8", [1]]], bytes(17), "gave back z as int8[1], which nobody asked for"),
        ([["y", "float32", [4]], ["y", "float32", [4]]], bytes(32), "answers with 32 bytes; its tensors need 16"),
        ([["y", "float32", [4]]], bytes(12), "answers with 12 bytes; its tensors need 16"),
    ],
)
def test_an_answer_other_than_was_asked_for_is_a_fault(answer: list[Any], body: bytes, says: str) -> None:
    """Names, dtypes, shapes and bytes are those of the request."""
    request = request_for(1, returns={"y": (TensorSpec("float32", (4,)),)})
    outcome = play([frame({"answer": answer, "facts": {}}, body)], request)
    assert outcome.fault is not None and says in outcome.fault.sentence
    assert not outcome.ranks[0].answered and outcome.ranks[0].outputs == {}


RIGHT = [["y", "float32", [4]], ["n", "int64", []]]
WRONG = st.sampled_from([[], [-1], [2**40], [4, 1], [0], [2] * 65, "float16", "float64", "object", "y", "n", "", None, 2**70, [[4]]])


@PATIENT
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), WRONG), max_size=2), st.integers(-5, 5), st.integers(1, 3))
@example([], 0, 1)
def test_an_answer_is_what_was_asked_for_or_none(changes: list[tuple[int, int, Any]], more_bytes: int, times: int) -> None:
    """Names, dtypes, shapes and lengths that lie: the outcome has the two tensors of the request to the byte, or a fault and none."""
    asked = {"y": (TensorSpec("float32", (4,)),), "n": (TensorSpec("int64", ()),)}
    answer = [list(each) for each in RIGHT]
    for which, field, value in changes:
        answer[which][field] = value
    body = bytes(range(24))[: 24 + min(more_bytes, 0)] + bytes(max(more_bytes, 0))
    outcome = play([frame({"answer": answer, "facts": {}}, body) * times], request_for(1, returns=asked))
    if outcome.fault is None:
        got = outcome.ranks[0].outputs
        assert answer == RIGHT and {name: tensor.spec for name, tensor in got.items()} == {name: spec for name, (spec,) in asked.items()}
        assert got["y"].data + got["n"].data == bytes(range(24))
    else:
        assert_blamed(outcome, 1)
        assert outcome.ranks[0].outputs == {} and not (answer == RIGHT and more_bytes == 0)


def test_nothing_counts_after_the_answer() -> None:
    """A rank that has answered may not take anything back or add to its trace."""
    request = request_for(1, returns={"y": (TensorSpec("float32", (1,)),)})
    answer = frame({"answer": [["y", "float32", [1]]], "facts": {"a": 1}}, b"\0\0\0\0")
    again = frame({"answer": [["y", "float32", [1]]], "facts": {"a": 2}}, b"\1\1\1\1")
    outcome = play([answer + again + frame({"mark": "mark", "name": "late"})], request)
    assert outcome.fault is None and outcome.events == ()
    assert outcome.ranks[0].facts == {"a": 1} and outcome.ranks[0].outputs["y"].data == b"\0\0\0\0"
