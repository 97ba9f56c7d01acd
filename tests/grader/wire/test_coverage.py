"""Every operation, and what torch builds on them, gives over the wire what it gives over gloo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from grader.records import Limits, Network, Outcome
from tests.grader.wire.launch import Ranks

FROM_HEX = {"bfloat16": ml_dtypes.bfloat16}
# Sums of up to four terms, and what a few layers make of them, in another order.
ROUNDING = {"float16": 2**-7, "bfloat16": 2**-4, "float32": 1e-5, "float64": 1e-12}
UNHURRIED = Limits(cpu_s=60.0, wall_s=60.0)


def run(ranks: Ranks, file: str, world_size: int, backend: str, folder: Path, network: Network | None = None) -> Outcome:
    """All cases of a file in one run that must end well."""
    network = network or Network("wire" if backend == "wire" else "none")
    outcome = ranks.call(file, "everything", world_size, backend=backend, folder=str(folder), network=network, limits=UNHURRIED)
    assert outcome.fault is None, (outcome.fault, [rank.log[-800:] for rank in outcome.ranks])
    return outcome


def tensors(outcome: Outcome, rank: int, case: str) -> list[tuple[str, Any]]:
    """What a case gave on a rank, with torch's names of the dtypes."""
    reported = outcome.ranks[rank].facts[case]
    return [(dtype, np.frombuffer(bytes.fromhex(raw), dtype=FROM_HEX.get(dtype, dtype))) for dtype, raw in reported]


def differing(wire: Outcome, gloo: Outcome, *, to_the_bit: bool) -> list[str]:
    """Cases whose tensors differ, and on which rank."""
    found = []
    for rank in range(len(wire.ranks)):
        assert wire.ranks[rank].facts.keys() == gloo.ranks[rank].facts.keys()
        for case in wire.ranks[rank].facts:
            for (dtype, ours), (_, theirs) in zip(tensors(wire, rank, case), tensors(gloo, rank, case), strict=True):
                if to_the_bit or dtype not in ROUNDING:
                    same = ours.tobytes() == theirs.tobytes()
                else:
                    a, b = ours.astype(np.float64), theirs.astype(np.float64)
                    same = np.allclose(a, b, rtol=ROUNDING[dtype], atol=ROUNDING[dtype] * np.abs(b).max(initial=0))
                if not same:
                    found.append(f"{case} on rank {rank}: {ours[:9]} and {theirs[:9]}")
    return found


@pytest.mark.parametrize("file", ["operations.py", "messages.py", "frameworks.py"])
@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_the_wire_gives_what_gloo_gives(ranks: Ranks, tmp_path: Path, file: str, world_size: int) -> None:
    """To the bit on two ranks; beyond, gloo adds in another order and the sums agree to rounding."""
    wire = run(ranks, file, world_size, "wire", tmp_path)
    gloo = run(ranks, file, world_size, "gloo", tmp_path)
    assert not differing(wire, gloo, to_the_bit=world_size == 2)


@pytest.mark.parametrize("network", [Network(rendezvous=False), Network(late=True)], ids=["buffered", "late"])
def test_buffered_sends_and_late_delivery_change_no_value_of_a_right_program(ranks: Ranks, tmp_path: Path, network: Network) -> None:
    """Whoever waits for what it reads gets the same numbers however the network delivers."""
    for file in ("operations.py", "messages.py"):
        plain = run(ranks, file, 2, "wire", tmp_path)
        other = run(ranks, file, 2, "wire", tmp_path, network)
        assert not differing(other, plain, to_the_bit=True)
