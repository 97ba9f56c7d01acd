"""What the recorder says of ranks on GPUs, said without one: a call is pending on the device, and whoever waits for it spins."""

from __future__ import annotations

from typing import Any, NoReturn


def takes_at(function: Any) -> Any:
    """Give the function the probe's door."""
    function.takes_at = True
    return function


def issue(at: Any) -> None:
    """The recorder's word on an all-reduce of all ranks."""
    call = {"kind": "issue", "call": 0, "op": "all_reduce", "group": list(range(at.world_size)), "dtype": "float32", "shape": [2]}
    at._line.post({"event": call})


def spin() -> NoReturn:
    """As the driver does when a rank waits for its device."""
    while True:
        pass


@takes_at
def both_spin(at: Any) -> None:
    issue(at)
    spin()


@takes_at
def one_computes(at: Any) -> None:
    if at.rank == 0:
        issue(at)
    spin()
