"""Gates and holds: who lets gradients leave while backward runs passes, and nobody else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from grader.errors import CourseError
from grader.observe.observation import Observation
from grader.records import Gate, Gates, Message, Outcome, Request, Tensor, TensorSpec
from grader.wire.gates import GateKeeper, policy_of, secret_at
from grader.wire.policy import Policy
from tests.grader.wire.launch import Ranks, request_for

WIDTH = 5
ROWS = {"w0": 3, "w1": 1, "w2": 4, "w3": 2, "w4": 5, "w5": 3}
PLACES = (Gate("before w4", ("w5",)), Gate("before w2", ("w4", "w3")))
ALIKE = dict.fromkeys(ROWS, 3)  # torch's buckets are layers where all layers fill one
HONEST = ("overlapped", "divided_first", "scattered")


def gated_request(function: str, world_size: int, *, hold: bool, rows: dict[str, int] = ROWS) -> Request:
    """A stack of layers with whole numbers as inputs, other ones on each rank."""
    rng = np.random.default_rng(5)
    shapes = {name: (count, WIDTH) for name, count in rows.items()} | {"signal": (WIDTH,)}
    inputs = {
        name: tuple(Tensor("float32", shape, rng.integers(-9, 10, shape).astype(np.float32).tobytes()) for _ in range(world_size))
        for name, shape in shapes.items()
    }
    returns = {name: (TensorSpec("float32", shapes[name]),) for name in rows}
    request = request_for(world_size, function=function, inputs=inputs, returns=returns)
    return replace(request, gates=Gates("step", "signal", PLACES, hold=hold, seed=11))


def outcome_of(ranks: Ranks, function: str, world_size: int = 2, *, hold: bool = False, rows: dict[str, int] = ROWS) -> Outcome:
    """What came of one program."""
    return ranks.run(gated_request(function, world_size, hold=hold, rows=rows), "gated.py")


def numbers(tensor: Tensor) -> np.ndarray:
    """A float32 tensor as float64."""
    return np.frombuffer(tensor.data, np.float32).reshape(tensor.shape).astype(np.float64)


@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize(("function", "world_size"), [(name, n) for name in HONEST for n in (1, 2, 3)])
def test_who_sends_in_time_passes(ranks: Ranks, function: str, world_size: int, hold: bool) -> None:
    """An all-reduce or reduce-scatter of each gradient from its hook, divided before or after, opens every gate, also under the hold."""
    assert outcome_of(ranks, function, world_size, hold=hold).fault is None


@pytest.mark.parametrize("hold", [False, True])
def test_torchs_own_data_parallel_passes_from_its_second_step(ranks: Ranks, hold: bool) -> None:
    """The library that everybody uses keeps the law."""
    assert outcome_of(ranks, "torch_data_parallel", hold=hold, rows=ALIKE).fault is None


@pytest.mark.parametrize("function", ["flat", "dummies", "scaled", "one_layer_late", "guesses"])
def test_who_sends_late_or_something_else_stands_still(ranks: Ranks, function: str) -> None:
    """After backward, before it, one layer behind, one percent off, or without the secret: some gate never opens."""
    fault = outcome_of(ranks, function).fault
    assert fault is not None and fault.kind == "deadlock", fault
    assert "opens when the gradients behind it have been sent" in fault.sentence
    assert "rank 0 stands still at the gate " in fault.sentence and "float32" not in fault.sentence


def test_a_wait_inside_backward_shows_only_under_the_hold(ranks: Ranks) -> None:
    """A hook that blocks sends in time; it stands still when nothing is answered before the last gate."""
    assert outcome_of(ranks, "blocking").fault is None
    fault = outcome_of(ranks, "blocking", hold=True).fault
    assert fault is not None and fault.kind == "deadlock"
    assert "answered only when every rank's backward has come to its last gate" in fault.sentence and "gated.py" in fault.sentence


def test_the_secret_runs_through_all_further_gradients(ranks: Ranks) -> None:
    """What the ranks end with is input times (signal + secrets of the gates before): other numbers than backward alone would give."""
    request = gated_request("overlapped", 2, hold=True)
    assert request.gates is not None
    outcome = ranks.run(request, "gated.py")
    for name, num_passed in (("w5", 0), ("w4", 1), ("w3", 1), ("w0", 2)):
        mean = np.zeros((ROWS[name], WIDTH))
        for rank in range(2):
            secrets = [secret_at(request, request.gates, rank, place) for place in range(num_passed)]
            mean += numbers(request.input_of(name, rank)) * (numbers(request.input_of("signal", rank)) + sum(secrets)) / 2
        assert np.array_equal(numbers(outcome.ranks[1].outputs[name]), mean), name


def test_secrets_differ_between_ranks_gates_and_seeds_and_nothing_else() -> None:
    """They are drawn from the request's seed of gates, which no rank is told."""
    request = gated_request("overlapped", 2, hold=False)
    gates = request.gates
    assert gates is not None
    drawn = [secret_at(request, replace(gates, seed=seed), rank, place).tobytes() for seed in (1, 2) for rank in (0, 1) for place in (0, 1)]
    assert len(set(drawn)) == 8
    assert secret_at(request, gates, 1, 1).tobytes() == secret_at(request, gates, 1, 1).tobytes()


def test_gates_are_part_of_a_stored_observations_key() -> None:
    """A request with other gates, or none, is another request."""
    held, open_ = gated_request("overlapped", 2, hold=True), gated_request("overlapped", 2, hold=False)
    headers = [str(request.header()) for request in (held, open_, replace(held, gates=None))]
    assert len(set(headers)) == 3


def test_an_observation_tells_what_was_handed_out() -> None:
    """A test can compute what the ranks must end with; one whose request declares no gates is the course's mistake."""
    request = gated_request("overlapped", 2, hold=False)
    nothing = Outcome(ranks=(), events=(), fault=None)
    assert request.gates is not None
    told = Observation(request, nothing, key="", how_to=lambda: Message("")).gate_secrets(1)
    assert [secret.tobytes() for secret in told] == [secret_at(request, request.gates, 1, place).tobytes() for place in (0, 1)]
    with pytest.raises(CourseError, match="no gates"):
        Observation(replace(request, gates=None), nothing, key="", how_to=lambda: Message("")).gate_secrets(1)


def test_a_request_without_gates_holds_nothing() -> None:
    """The plain wire is the rule."""
    assert type(policy_of(replace(gated_request("overlapped", 2, hold=True), gates=None))) is Policy
    assert isinstance(policy_of(gated_request("overlapped", 2, hold=True)), GateKeeper)
