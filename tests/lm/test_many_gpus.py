"""Meshes of the pieces around the given GPT come to what the whole model comes to; and a point that fails stops no other."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from grader.simulator import Model, Plan, cluster, why_not
from tests.benchmarks.forms import many_gpus
from tests.soak.many_gpus import agrees, efficiencies, measured
from tests.soak.mesh_points import Point, points

ROOT = Path(__file__).parents[2]
SEEN = {"loss": 5.1, "whole_loss": 5.11, "gradient_norm": 1.6, "whole_gradient_norm": 1.61, "last_loss": 4.0}


def test_every_mesh_of_four_ranks_is_the_whole_model(tmp_path: Path) -> None:
    """On gloo, in float32: loss and gradient norm of TP x DP, TP x PP, PP x DP and TP alone, and the simulator's word beside each."""
    command = [sys.executable, "-m", "tests.soak.many_gpus", "--out", str(tmp_path), "--steps", "mesh", "--pretend", "4"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    document = json.loads((tmp_path / "many_gpus.json").read_text())
    rows = document["points"]
    assert [name.removeprefix("mesh tiny mesh ") for name in rows] == ["tp2 dp2", "tp2 pp2", "pp2 dp2", "tp4"]
    for name, row in rows.items():
        # float32 sums of some thousands of terms in another order
        assert row["loss"] == pytest.approx(row["whole_loss"], rel=1e-5), name
        assert row["gradient_norm"] == pytest.approx(row["whole_gradient_norm"], rel=1e-5), name
        assert len(row["steps_ms"]) == 4 and row["simulated"]["step_ms"] > 0
    assert "\n".join(many_gpus(document, {})).count("| mesh") == 4


def test_a_point_whose_rank_dies_is_told_and_the_next_is_measured(tmp_path: Path) -> None:
    """The others of its ranks wait for it; they are ended, and new ones go on."""
    good = Point("mesh", "tiny", "mesh", Plan(tp=2, micro_batch=2), 16)
    bad = Point("mesh", "tiny", "alone", Plan(dp=2, micro_batch=2), 100)  # more tokens than there are positions
    document: dict[str, Any] = {"device": "none", "num_gpus": 2, "timed_steps": 1, "torch": "", "driver": "", "date": ""}
    assert measured(argparse.Namespace(out=tmp_path, pretend=2), [bad, good], 2, time.time() + 600, document)
    failed, held = document["points"].values()
    assert not failed["ok"] and "IndexError" in failed["error"]
    assert held["ok"] and held["loss"] == pytest.approx(held["whole_loss"], rel=1e-5)
    assert "failed" in "\n".join(many_gpus(document, {}))


@pytest.mark.parametrize("num_gpus", [2, 4, 8])
def test_points_fill_the_gpus_and_are_plans(num_gpus: int) -> None:
    """Every mesh takes all GPUs, scaling ends with all of them, no two have one name, and the simulator knows each as a plan."""
    found = points(["scaling", "mesh"], num_gpus, pretend=False)
    assert len({point.name for point in found}) == len(found)
    assert {point.plan.num_gpus for point in found if point.step == "mesh"} == {num_gpus}
    assert max(point.plan.dp for point in found if point.step == "scaling") == num_gpus
    for point in found:
        config = point.config
        model = Model(config.num_layers, config.hidden_size, config.num_heads, config.num_kv_heads, config.mlp_size, config.vocab_size,
                      point.tokens, point.plan.global_batch)  # fmt: skip
        assert why_not(model, cluster("H200 SXM 141GB", 1, point.plan.num_gpus, gbit_per_s=1), point.plan) == ()


@pytest.mark.parametrize(("wrong", "value"), [("loss", 5.3), ("gradient_norm", 3.2), ("last_loss", 5.2)])
def test_what_is_not_the_whole_model_is_seen(wrong: str, value: float) -> None:
    """Another loss, a gradient that was summed for a mean, and a training that leads nowhere."""
    assert agrees(SEEN)
    assert not agrees(SEEN | {wrong: value})


def test_efficiency_is_of_the_same_way_on_one_rank() -> None:
    """Eight sequences a rank: as long on four ranks as on one is 100 %."""
    rows = {
        f"{way}{n}": {"step": "scaling", "way": way, "plan": {"dp": n}, "step_ms": step_ms, "simulated": {"step_ms": 10.0 * n**0.5}}
        for way, n, step_ms in (("course_ddp", 1, 20.0), ("torch_ddp", 1, 16.0), ("course_ddp", 4, 25.0), ("torch_ddp", 4, 20.0))
    }
    found = efficiencies(rows)
    assert found["course_ddp"]["4"] == {"measured": 0.8, "simulated": 0.5, "over_torch": 1.25}
    assert found["torch_ddp"]["4"] == {"measured": 0.8, "simulated": 0.5}
