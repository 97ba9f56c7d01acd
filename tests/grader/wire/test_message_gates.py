"""Gates that open for messages: who sends in time and waits in time passes, and nobody else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from grader.records import Gate, Gates, Outcome, Request, Tensor, TensorSpec
from grader.wire.gates import MessageGateKeeper, policy_of, secret_at
from tests.grader.wire.launch import Ranks, request_for

BLOCK_BYTES = 8  # four numbers of float16


def ring(function: str, world_size: int, *, hold: bool = True) -> Request:
    """A block of ones on each rank, and a gate for each of its hops."""
    block = tuple(Tensor("float16", (4,), np.ones(4, np.float16).tobytes()) for _ in range(world_size))
    signal = tuple(Tensor("float32", (4,), np.zeros(4, np.float32).tobytes()) for _ in range(world_size))
    request = request_for(
        world_size, function=function, inputs={"block": block, "signal": signal}, returns={"total": (TensorSpec("float32", (4,)),)}
    )
    steps = tuple(Gate(f"step {step}", sent_bytes=(step + 1) * BLOCK_BYTES) for step in range(world_size - 1))
    return replace(request, gates=Gates("step", "signal", steps, hold=hold, seed=7, messages="float16"))


def outcome_of(ranks: Ranks, function: str, world_size: int = 2, *, hold: bool = True) -> Outcome:
    """What came of one program."""
    return ranks.run(ring(function, world_size, hold=hold), "gated_messages.py")


@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_who_sends_computes_and_then_waits_passes(ranks: Ranks, world_size: int, hold: bool) -> None:
    """Every gate opens, with and without the hold, and what other dtypes carry meanwhile is not held; the secrets are in the answer."""
    outcome = outcome_of(ranks, "overlapped", world_size, hold=hold)
    assert outcome.fault is None
    request = ring("overlapped", world_size, hold=hold)
    assert request.gates is not None
    for rank in range(world_size):
        secrets = [secret_at(request, request.gates, rank, place) for place in range(world_size - 1)]
        total = np.frombuffer(outcome.ranks[rank].outputs["total"].data, np.float32)
        assert np.array_equal(total, world_size + np.sum(secrets, axis=0))


@pytest.mark.parametrize("function", ["computes_first", "sends_half", "sends_before_the_phase"])
def test_who_has_not_sent_the_block_in_the_phase_stands_still(ranks: Ranks, function: str) -> None:
    """Nothing sent, half of it, another dtype, or before the phase: the gate says how many bytes it has seen."""
    fault = outcome_of(ranks, function).fault
    assert fault is not None and fault.kind == "deadlock", fault
    assert f"opens when {BLOCK_BYTES} bytes (float16) have been sent in step" in fault.sentence


def test_who_waits_before_the_gate_stands_still_under_the_hold_only(ranks: Ranks) -> None:
    """A message is answered when its sender and its receiver have come to the gate that it opens."""
    assert outcome_of(ranks, "waits_first", hold=False).fault is None
    fault = outcome_of(ranks, "waits_first").fault
    assert fault is not None and fault.kind == "deadlock"
    assert "both ranks have come to the gate 'step 0'" in fault.sentence and "gated_messages.py" in fault.sentence


def test_gates_that_count_messages_have_their_own_keeper() -> None:
    """And are another request than gates that count reductions."""
    request = ring("overlapped", 2)
    assert request.gates is not None
    assert isinstance(policy_of(request), MessageGateKeeper)
    assert str(request.header()) != str(replace(request, gates=replace(request.gates, messages="")).header())
