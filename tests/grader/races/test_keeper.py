"""What a keeper tells of outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from grader.worker.keeper import Keeper


class Mean:
    """The mean of some numbers, of which a plain implementation gives exactly the right one."""

    def __init__(self) -> None:
        self.inputs, self.outputs = {"x": ("float32", (8,))}, {"y": ("float32", ())}

    def fill(self, inputs: dict[str, torch.Tensor], generator: torch.Generator) -> None:
        """As wanted: one and a half."""
        inputs["x"].fill_(1.5)

    def places(self, generator: torch.Generator) -> None:
        """There is one number."""

    def exact(self, inputs: dict[str, torch.Tensor], places: None) -> dict[str, torch.Tensor]:
        """In float64."""
        return {"y": inputs["x"].double().mean()}

    plain = exact

    def taken(self, outputs: dict[str, torch.Tensor], places: None) -> dict[str, torch.Tensor]:
        """A copy."""
        return {"y": outputs["y"].clone()}


@pytest.mark.parametrize("least", [None, 1e-3])
def test_an_output_of_one_number_is_granted_an_error_though_the_plain_one_has_none(
    least: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`least_error` stands in for a plain implementation's that is smaller; the submission's own error is told as it is."""
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    monkeypatch.setattr("grader.worker.keeper.HOST_BYTES", 4096)
    track: Any = Mean()
    if least is not None:
        track.least_error = {"y": least}
    keeper = Keeper(track, torch.device("cpu"), 0, 1)
    keeper.fill(0, 1, 1, seed=0)
    ((slot, name, mine, plain),) = keeper.errors([{"y": torch.tensor(1.5 * 1.01)}])
    assert (slot, name) == (0, "y")
    assert mine == pytest.approx([0.01, 0.01], rel=1e-4)
    assert plain == [least or 0.0] * 2
