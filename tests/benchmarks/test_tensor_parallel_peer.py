"""The reference's numbers are those of torch's own tensor parallelism."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "tensor_parallel_speed.py"


def test_loss_and_gradients_are_those_of_parallelize_module(tmp_path: Path) -> None:
    """On two ranks of gloo, with and without cut tokens, loss and the norm of every gradient agree with torch's and with one rank's."""
    out = ["--out", str(tmp_path / "tiny.json")]
    flags = ["--device", "cpu", "--preset", "tiny", "--sequences", "1", "--timed", "1", "--repeats", "1", *out]
    ended = subprocess.run([sys.executable, str(SCRIPT), *flags], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    ways = json.loads((tmp_path / "tiny.json").read_text())["ways"]
    alone = ways.pop("alone")[0]
    assert set(ways) == {"reference", "torch", "reference_sequence", "torch_sequence"}
    for way, (found,) in ways.items():
        # float32 sums of some hundreds of terms in another order.
        assert found["loss"] == pytest.approx(alone["loss"], rel=1e-5), way
        assert found["gradient_norms"] == pytest.approx(alone["gradient_norms"], rel=1e-4), way
