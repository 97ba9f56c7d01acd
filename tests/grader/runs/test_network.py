"""What ranks send each other over gloo, seen from outside: the counter of their own loopback, and what there is when it is missing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.observe.live import Runs
from grader.ranks.isolation import level_in
from grader.records import Event, MiB, Outcome, RankOutcome
from grader.wire.loopback import fault_of_traffic

ROOT = Path(__file__).parents[3]
PAYLOAD_BYTES = 4 * MiB
HONEST = f"""
    def run(inputs):
        x = torch.ones({PAYLOAD_BYTES // 4})
        dist.all_reduce(x)
        return {{"y": x[:1]}}
"""
TELLS_OF_A_CALL_THAT_NEVER_WAS = """
    from grader.worker import recorder
    def run(inputs):
        told = dict(call=999, op="all_reduce", group=[0, 1], num_bytes=2**26, dtype="float32", shape=[2**24], reduction="SUM")
        recorder._tell(kind="issue", **told)
        recorder._tell(kind="wait", call=999, op="all_reduce")
        recorder._tell(kind="done", call=999, op="all_reduce")
        return {"y": torch.full((1,), 2.0)}
"""
SENDS_OVER_A_SOCKET_OF_ITS_OWN = """
    import socket
    def run(inputs):
        port = torch.zeros(1)
        if dist.get_rank() == 0:
            listener = socket.create_server(("127.0.0.1", 0))
            dist.broadcast(port.fill_(listener.getsockname()[1]), 0)
            other, _ = listener.accept()
            other.sendall(bytes(2**23))
            other.recv(1)
        else:
            dist.broadcast(port, 0)
            left, other = 2**23, socket.create_connection(("127.0.0.1", int(port)))
            while left:
                left -= len(other.recv(left))
            other.sendall(b"x")
        return {"y": torch.full((1,), 2.0)}
"""


def test_a_loopback_of_its_own_counts_what_gloo_carries(submit: Callable, runs: Runs) -> None:
    """Each of two ranks sends its 4 MiB once; a network that is the machine's is not counted, and neither is the judge's wire."""
    returns = {"y": ("float32", (1,))}
    seen = submit(HONEST)("run", world_size=2, returns=returns, transport="gloo").require()
    carried = seen._outcome.loopback_bytes
    if level_in(runs.isolation()) == "A":
        assert 2 * PAYLOAD_BYTES <= carried < 2.2 * PAYLOAD_BYTES, carried
    else:
        assert carried is None
    assert submit(HONEST)("run", world_size=2, returns=returns)._outcome.loopback_bytes is None


@pytest.mark.parametrize("number", range(5))
def test_ranks_with_nothing_to_say_need_not_wait_for_each_other(submit: Callable, number: int) -> None:
    """gloo connects pair by pair: who is through and gone at once must not fail a rank that is still connecting."""
    source = f'''
    def run(inputs):
        return {{"y": torch.full((1,), {number}.0)}}
'''
    seen = submit(source)("run", world_size=4, returns={"y": ("float32", (1,))}, transport="gloo")
    assert seen.fault is None, seen.fault


@pytest.mark.parametrize(
    ("source", "says"), [(TELLS_OF_A_CALL_THAT_NEVER_WAS, "never were"), (SENDS_OVER_A_SOCKET_OF_ITS_OWN, "crossed without")]
)
def test_a_trace_that_disagrees_with_the_counter_is_forged(submit: Callable, runs: Runs, source: str, says: str) -> None:
    """Traffic that was only told of, and traffic that was not: the run is the submission's fault, wherever there is a counter."""
    seen = submit(source)("run", world_size=2, returns={"y": ("float32", (1,))}, transport="gloo")
    if level_in(runs.isolation()) == "A":
        assert seen.fault is not None and seen.fault.kind == "forged" and says in seen.fault.sentence, seen.fault
    else:
        assert seen.fault is None


def carried(num_bytes: int, *calls: Event) -> Outcome:
    """A run of three ranks over gloo that ended well."""
    ranks = tuple(RankOutcome(rank, True, 0) for rank in range(3))
    return Outcome(ranks, calls, None, loopback_bytes=num_bytes)


def test_every_algorithm_of_a_collective_is_between_the_bounds() -> None:
    """From a tree's n − 1 times the payload to the worst that gloo does, whose all_gather carries n (n − 1) times what a rank puts in."""
    group, payload = (0, 1, 2), 30 * MiB
    calls = [Event(rank, "issue", call=0, op="all_reduce", num_bytes=payload, group=group) for rank in group]
    waits = [Event(rank, "wait", call=0) for rank in group]
    for times, is_fine in ((1.9, False), (2, True), (4, True), (6, True), (36, True), (37, False)):
        assert (fault_of_traffic(carried(int(times * payload), *calls, *waits)) is None) == is_fine, times
    assert fault_of_traffic(carried(0, *calls)) is None, "a call that nobody waited for may never have left"
    assert fault_of_traffic(carried(0)) is None


WITHOUT_LOOPBACK = """
import ctypes, sys
sys.path.insert(0, {root!r})
if ctypes.CDLL(None, use_errno=True).unshare(0x40000000 | (0 if __import__("os").geteuid() == 0 else 0x10000000)):
    sys.exit("no network namespace may be made here")
import tempfile
from pathlib import Path
from grader.doctor import opened_for_two
from grader.errors import MachineError
with opened_for_two("C") as observer:
    ask, one = observer.for_case("doctor", False, "no loopback"), __import__("numpy").ones(1, "float32")
    try:
        ask("total", world_size=2, inputs={{"x": one}}, returns={{"y": ("float32", (1,))}}, transport="gloo")
    except MachineError as error:
        print("machine:", error)
    print("stored:", observer.runs.store.outcome(ask.keys[0]))
"""


def test_a_machine_without_a_loopback_is_at_fault_and_not_the_submission() -> None:
    """Gloo's own words name an address and would end in the student's report; they are the machine's, and no replay has them."""
    seen = subprocess.run([sys.executable, "-c", WITHOUT_LOOPBACK.format(root=str(ROOT))], capture_output=True, text=True, timeout=120)
    if "no network namespace" in seen.stderr:
        return  # nothing can be taken away from this machine: what it has is what `doctor` tries
    assert "machine: gloo's ranks can't reach each other here" in seen.stdout and "stored: None" in seen.stdout, seen.stderr + seen.stdout
