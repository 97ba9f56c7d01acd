"""The wire's parts alone, without ranks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.records import Event, TensorSpec
from grader.wire.arithmetic import Fold, array_of
from grader.wire.faults import innermost_frame
from grader.wire.findings import findings_of
from grader.wire.kernel import cpu_seconds, is_asleep_for_ever
from grader.wire.log import Log
from grader.wire.policy import Policy
from grader.wire.seat import describe_exit
from tests.grader.wire.launch import request_for
from tests.grader.wire.puppets import frame, operation, play

FLOATS = st.floats(-1e3, 1e3, width=32)


@given(st.permutations(range(4)), st.lists(st.tuples(FLOATS, FLOATS, FLOATS, FLOATS), min_size=1, max_size=5))
def test_a_sum_is_taken_in_rank_order_whoever_comes_first(order: list[int], rows: list[tuple[float, ...]]) -> None:
    """Floating-point sums depend on their order: it is the group's, not the scheduler's."""
    terms = [np.array(column, np.float32) for column in zip(*rows, strict=True)]
    fold = Fold([TensorSpec("float32", (len(rows),))], "SUM", 4)
    for member in order:
        fold.add(member, bytearray(terms[member].tobytes()))
    assert array_of(fold.total(), "float32").tobytes() == (((terms[0] + terms[1]) + terms[2]) + terms[3]).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_mean_is_divided_once_in_its_own_dtype(dtype: str) -> None:
    """The sum of the members over their number."""
    values = array_of(bytes(6 if dtype != "float32" else 12), dtype) + array_of(b"", dtype).dtype.type(3)
    fold = Fold([TensorSpec(dtype, (3,))], "AVG", 2)
    for member in range(2):
        fold.add(member, bytearray(values.tobytes()))
    assert array_of(fold.total(), dtype).tobytes() == values.tobytes()


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=12), st.integers(0, 30))
def test_a_log_keeps_its_head_and_its_tail(chunks: list[bytes], limit_bytes: int) -> None:
    """Everything that fits, else as much of both ends as the limit says and a word on the rest."""
    read, write = os.pipe()
    log = Log(read, limit_bytes)
    for chunk in chunks:
        os.write(write, chunk)
        assert log.read()
    os.close(write)
    assert not log.read()
    os.close(read)
    whole = b"".join(chunks)
    head, tail = whole[:limit_bytes], whole[max(limit_bytes, len(whole) - limit_bytes) :]
    lost_bytes = len(whole) - len(head) - len(tail)
    middle = f"\n... {lost_bytes} bytes left out ...\n" if lost_bytes else ""
    assert log.text() == head.decode(errors="replace") + middle + tail.decode(errors="replace")


STACK = """Thread 0x01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 5 in wait
  File "/home/me/submission/ring.py", line 7 in in_another_thread

Current thread 0x02 (most recent call first):
  File "/x/site-packages/torch/distributed/c10d.py", line 1 in send
  File "/home/me/submission/ring.py", line 41 in ring_all_reduce
  File "/home/me/submission/ring.py", line 90 in outer
  File "/course/tests/probes/collectives.py", line 3 in all_reduce
"""


@pytest.mark.parametrize("folder", ["/home/me/submission", ""])
def test_the_innermost_line_of_the_current_thread_is_the_students(folder: str) -> None:
    """Libraries, the probe and other threads are passed over, whether the folder is known or not."""
    found = innermost_frame(STACK, folder)
    assert found is not None and (found.file, found.line, found.function) == ("ring.py", 41, "ring_all_reduce")
    assert innermost_frame("", folder) is None


@pytest.mark.parametrize(
    ("program", "is_for_ever"),
    [
        ("input()", True),
        ("threading.Event().wait()", True),
        ("threading.Event().wait(60)", False),
        ("select.poll().poll(60_000)", False),
        ("time.sleep(60)", False),
        ("while True: pass", False),
    ],
)
def test_a_sleep_without_a_timer_is_told_from_one_with_and_from_work(program: str, is_for_ever: bool) -> None:
    """Waiting for another process is for ever; what a timer ends is not, nor is a loop."""
    code = f"import select, threading, time\nprint(flush=True)\n{program}"
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        until = time.monotonic() + (30 if is_for_ever else 0.3)
        seen = False
        while not seen and time.monotonic() < until:
            seen = is_asleep_for_ever(process.pid) is True
        assert seen == is_for_ever
        assert cpu_seconds(process.pid) > 0
        process.kill()
    assert cpu_seconds(process.pid) == 0.0 and is_asleep_for_ever(process.pid) is None


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (None, "has closed its line to the judge"),
        (3, "has exited with status 3"),
        (-signal.SIGKILL, "was killed by SIGKILL"),
        (-99, "was killed by signal 99"),
    ],
)
def test_exits_are_named(status: int | None, says: str) -> None:
    """Signals by their names where they have one."""
    assert describe_exit(status) == says


def message(rank: int, op: str, peer: int, **facts: int) -> Event:
    """An unbatched message unless the facts say otherwise."""
    return Event(rank, "issue", op=op, peer=peer, group=(0, 1), facts=dict(facts))


@pytest.mark.parametrize(
    ("left", "right", "num_found"),
    [
        (["send", "recv"], ["recv", "send"], 0),
        (["send", "recv"], ["send", "recv"], 1),
        (["send"], ["recv", "recv"], 0),
        (["recv"], ["recv"], 1),
    ],
)
def test_messages_of_a_pair_must_mirror_each_other(left: list[str], right: list[str], num_found: int) -> None:
    """The k-th of one side is the opposite of the k-th of the other, or NCCL may hang; inside a batch any order will do."""
    events = [*(message(0, op, 1) for op in left), *(message(1, op, 0) for op in right)]
    assert len(findings_of(events)) == num_found
    batched = [*(message(0, op, 1, batch=0) for op in left), *(message(1, op, 0, batch=0) for op in right)]
    assert findings_of(batched) == ()


class HoldsUntilAllHaveIssued(Policy):
    """Answers nothing before the second collective has come from both ranks."""

    def __init__(self) -> None:
        self.num_issued = 0

    def on_issue(self, call: object) -> None:
        self.num_issued += 1

    def may_complete(self, operation: object) -> bool:
        return self.num_issued == 4


def test_a_policy_may_hold_an_operation_until_more_has_happened() -> None:
    """Held operations are asked for again whenever somebody has spoken, and then matched as if nothing had been."""
    scripts = [b"".join(frame(operation(number, "barrier", rank=rank, ins=[], outs=[])) for number in range(2)) for rank in range(2)]
    answers = [script + frame({"answer": [], "facts": {}}) for script in scripts]
    outcome = play(answers, request_for(2), policy=HoldsUntilAllHaveIssued())
    assert outcome.fault is None
    assert [event.match for event in outcome.events] == [0, 1, 0, 1]
