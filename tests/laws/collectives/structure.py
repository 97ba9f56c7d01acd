"""How the ranks must have come by it: volume, rounds, neighbours, pipelines."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from grader.records import ITEMSIZE
from tests.laws.collectives.runs import Rows, Tensors
from tests.laws.traffic import (
    assert_contiguous,
    assert_group,
    assert_peers,
    assert_rounds,
    assert_sent_elements,
    assert_sent_together,
    assert_time,
    assert_waited,
    sends,
)

WHOLE_EACH_STEP = "One chunk is sent in each step, where the whole tensor would be too much."
DOUBLING = "In round k everybody exchanges with rank XOR 2^k, both ways at once. Is P the largest power of two that is not above N?"
NETWORKS = ((1.0, math.inf), (0.0, 16.0), (2.0, 48.0))  # latency in s, bytes per second: only latency, only bandwidth, both


def num_halves(seen: Any) -> int:
    """2 for the all-reduce, 1 for each of its halves."""
    return 2 if seen.request.probe == "in_place" else 1


def judge_ring_volume(seen: Any, tensors: Tensors) -> None:
    """N-1 chunks per rank and half: exactly (N-1)/N of the tensor where N divides it, otherwise at most N-1 of the largest chunks."""
    world_size, halves = seen.world_size, num_halves(seen)
    for name, (dtype, (num_elements,)) in tensors.items():
        most = halves * (world_size - 1) * math.ceil(num_elements / world_size)
        is_even = num_elements % world_size == 0
        for rank in range(world_size):
            assert_sent_elements(seen, rank, name, least=most if is_even else 0, most=most, dtype=dtype, hint=WHOLE_EACH_STEP)
        # No algorithm does with less: every element has to be sent N-1 times in each half, by whatever ranks.
        assert_sent_together(seen, name, least=halves * (world_size - 1) * num_elements)


def judge_ring_rounds(seen: Any, tensors: Tensors) -> None:
    """N-1 rounds for each half."""
    rounds = num_halves(seen) * (seen.world_size - 1)
    for name in tensors:
        assert_rounds(
            seen,
            name,
            least=rounds,
            most=rounds,
            hint="Are the send and the receive of a step started together? Is one message sent per step?",
        )


def judge_neighbours(seen: Any, tensors: Tensors) -> None:
    """Messages go to the right and left neighbour only."""
    for name in tensors:
        for rank in range(seen.world_size):
            neighbours = {(rank + 1) % seen.world_size, (rank - 1) % seen.world_size}
            assert_peers(
                seen,
                rank,
                name,
                allowed=neighbours,
                hint="In a ring a chunk travels from neighbour to neighbour and picks up shares on its way.",
            )


def judge_point_to_point(seen: Any, tensors: Tensors) -> None:
    """Every rank sends, and calls nothing but sends and receives."""
    for name in tensors:
        for rank in range(seen.world_size):
            neighbours = {(rank + 1) % seen.world_size, (rank - 1) % seen.world_size}
            if not sends(seen, rank, name):
                assert_peers(seen, rank, name, allowed=neighbours)


def judge_members(seen: Any, names: Iterable[str], *, is_quiet_allowed: bool = False) -> None:
    """Members exchange messages with each other through the group that was given; others take no part."""
    members = seen.request.parameters["members"]
    for name in names:
        for rank in members:
            assert_group(seen, rank, name, members)
            if not is_quiet_allowed:
                assert_peers(
                    seen,
                    rank,
                    name,
                    allowed=set(members),
                    hint="dst, src and peer are global ranks; group_dst, group_src and group_peer are not.",
                )


def judge_contiguous(seen: Any, names: Iterable[str]) -> None:
    """What is sent and received is contiguous, whatever the layout of the caller's tensor."""
    for name in names:
        for rank in range(seen.world_size):
            assert_contiguous(seen, rank, name)


def judge_waits(seen: Any, names: Iterable[str]) -> None:
    """Nobody leaves a call behind that was not waited for."""
    seen.require()  # in a run that was ended, calls are left because of that
    for name in names:
        for rank in range(seen.world_size):
            assert_waited(seen, rank, name)


# --- broadcast -------------------------------------------------------------------------------------------------------
def judge_pipeline(seen: Any, tensors: Tensors) -> None:
    """N - 2 + K times the time of one of K pieces, on networks of several kinds."""
    world_size, num_chunks = seen.world_size, seen.request.parameters["num_chunks"]
    for name, (dtype, (num_elements,)) in tensors.items():
        num_bytes = num_elements * ITEMSIZE[dtype]
        for latency_s, bandwidth_bytes_per_s in NETWORKS:
            piece_s = latency_s + num_bytes / num_chunks / bandwidth_bytes_per_s
            whole_s = latency_s + num_bytes / bandwidth_bytes_per_s
            suspects = {
                "That is the naive chain: each link waits until the whole tensor has arrived, so nothing is pipelined.": (world_size - 1)
                * whole_s,
                "That is the pieces one after the other, each all along the chain: nothing is pipelined.": (world_size - 1)
                * num_chunks
                * piece_s,
                "A rank doesn't receive the next piece while it sends this one: only half of a pipeline.": (world_size - 3 + 2 * num_chunks)
                * piece_s,
            }
            assert_time(
                seen,
                name,
                latency_s=latency_s,
                bandwidth_bytes_per_s=bandwidth_bytes_per_s,
                expected_s=(world_size - 2 + num_chunks) * piece_s,
                suspects=suspects,
            )


def judge_chain_volume(seen: Any, tensors: Tensors) -> None:
    """Every rank but the last of the chain sends the tensor once, to its right neighbour."""
    world_size, src = seen.world_size, seen.request.parameters["src"]
    for name, (dtype, (num_elements,)) in tensors.items():
        for rank in range(world_size):
            is_last = (rank + 1) % world_size == src
            expected = 0 if is_last else num_elements
            assert_sent_elements(
                seen,
                rank,
                name,
                least=expected,
                most=expected,
                dtype=dtype,
                hint="Each rank sends the tensor once, to its right neighbour; the last of the chain, left of the source, sends nothing.",
            )
            receivers = seen.wire.peers(rank, phase=name)
            if receivers - {(rank + 1) % world_size}:
                assert_peers(
                    seen, rank, name, allowed={(rank + 1) % world_size}, hint="The chain follows the ring, from the source to the right."
                )


# --- all_to_all ------------------------------------------------------------------------------------------------------
def judge_block_volume(seen: Any, rows: Rows, *, elements_per_row: int, dtype: str = "float32") -> None:
    """From each rank to each other go exactly the elements of their block."""
    for name, table in rows.items():
        for rank, row in enumerate(table):
            expected = elements_per_row * (sum(row) - row[rank])
            assert_sent_elements(
                seen,
                rank,
                name,
                least=expected,
                most=expected,
                dtype=dtype,
                hint="A rank's own block is copied; every other goes straight to its rank.",
            )
            allowed = {other for other, count in enumerate(row) if count and other != rank}
            receivers = {message.peer for message in sends(seen, rank, name) if math.prod(message.shape)}
            if receivers - allowed:
                assert_peers(seen, rank, name, allowed=allowed, hint="Each block goes straight to the rank that it is for.")


# --- recursive_doubling ----------------------------------------------------------------------------------------------
def num_doubling_rounds(world_size: int) -> int:
    """Rounds of recursive doubling, counted by doubling."""
    reached, rounds = 1, 0
    while 2 * reached <= world_size:
        reached, rounds = 2 * reached, rounds + 1
    return rounds if reached == world_size else rounds + 2


def judge_doubling_rounds(seen: Any, tensors: Tensors) -> None:
    """log2 N rounds, two more where N is no power of two."""
    rounds = num_doubling_rounds(seen.world_size)
    for name in tensors:
        assert_rounds(seen, name, least=rounds, most=rounds, hint=DOUBLING)


def judge_doubling_volume(seen: Any, tensors: Tensors) -> None:
    """log2 N times the tensor where N is a power of two; otherwise one to floor(log2 N) + 1 times."""
    world_size = seen.world_size
    log2 = world_size.bit_length() - 1
    is_power = world_size == 1 << log2
    for name, (dtype, (num_elements,)) in tensors.items():
        for rank in range(world_size):
            least, most = (log2, log2) if is_power else (1, log2 + 1)
            assert_sent_elements(
                seen,
                rank,
                name,
                least=least * num_elements,
                most=most * num_elements,
                dtype=dtype,
                hint="One exchange of the whole tensor per round, with one partner.",
            )
