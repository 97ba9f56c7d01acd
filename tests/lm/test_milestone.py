"""The milestone climbs one change at a time, keeps what it measured when it is killed, and renders nothing but what the log says."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import mfu_report
import nbformat
import pytest
import report
import torch

from lm import milestone, rendering, sections
from lm.hardware import HARDWARE, Hardware
from lm.ladder import default_plan, first_run, to_tf32
from lm.measuring import Order, measure
from lm.milestone import Milestone
from lm.runlog import Log, Run, num_parameters, read_log, run_from, write_log

CPU = torch.device("cpu")
PROGRAM = Path(report.__file__).resolve()
H200 = HARDWARE["H200 SXM 141GB"]
LADDER = ["fp32", "bf16", "fused_attention", "compiled", "padded_vocabulary", "larger_batch", "narrow_stream"]
TINY = ["--preset", "tiny", "--device", "cpu", "--warmup", "2", "--steps", "2"]
NARROW = dataclasses.replace(first_run(default_plan(CPU, preset="tiny")).config, stream="bf16")


def pretended(order: Order, *_: Any) -> Run:
    """A run as if it had been measured, at a tenth of an H200's peak."""
    run = order.run
    flops = mfu_report.flops_per_token(run.config, run.sequence, causal=False, recompute="none")
    tokens = run.micro_batch * run.num_micro_batches * run.sequence
    step_s = tokens * flops / (0.1 * H200.peak_flops_per_s[run.precision])
    message = 4 * num_parameters(run.config) if run.data_parallel in ("ddp", "torch_ddp") else 0
    collective = {"all_reduce_bytes": message, "all_reduce_s": step_s, "link_latency_s": 1e-6} if message else {}
    seen = {"step_s": (step_s,) * 3, "losses": (6.0, 5.5, 5.0), "peak_bytes": 20 * num_parameters(run.config)}
    return dataclasses.replace(run, **seen, **collective)


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run is made, and the machine is an H200's peaks on a link of an hour's patience."""
    monkeypatch.setattr(milestone, "measured", pretended)
    monkeypatch.setattr(milestone, "hardware_of", lambda plan, device: dataclasses.replace(H200, link_bytes_per_s=1e15))


def climb(folder: Path, only: tuple[str, ...] = (), **chosen: Any) -> Log:
    """A whole climb of the tiny model."""
    return Milestone(default_plan(CPU, preset="tiny", **chosen), CPU, folder / "log.json", lambda _: None, PROGRAM, only).climb()


def test_every_run_has_one_change_against_its_base(pretend: None, tmp_path: Path) -> None:
    """check_log finds a whole climb possible, and what a CPU cannot do is listed with its reason."""
    log = climb(tmp_path)
    assert [run.name for run in log.runs] == [*LADDER, "ddp", "torch_ddp", "torch_fsdp2", "accumulated"]
    assert mfu_report.check_log(log) == []
    assert log.skipped["tf32"] == "a CPU has no TF32"
    assert read_log(tmp_path / "log.json") == log


def test_without_bf16_the_ladder_goes_over_fp16(pretend: None, tmp_path: Path) -> None:
    """The rung is called by what it is, and all later ones are fp16; FSDP2 is refused with its reason."""
    log = climb(tmp_path, sixteen="fp16")
    assert {run.precision for run in log.runs[1:]} == {"fp16"}
    assert log.run("fp16") is not None
    assert "loss scaler" in log.skipped["torch_fsdp2"]
    assert "for bf16 only" in log.skipped["narrow_stream"]


def test_a_gpu_before_ampere_has_neither_tf32_nor_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a T4: the plan says fp16, and TF32 is refused."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _=None: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _=None: "Tesla T4")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    plan = default_plan(torch.device("cuda"))
    assert (plan.sixteen, plan.world_size, plan.preset) == ("fp16", 2, "gpt2-124m")
    assert to_tf32(first_run(plan), plan, torch.device("cuda")) == "Tesla T4 has no TF32: Ampere and later have"


def test_one_device_accumulates_instead(pretend: None, tmp_path: Path) -> None:
    """No ranks, with the reason; the same batch in pieces."""
    log = climb(tmp_path, world_size=1)
    accumulated, base = log.run("accumulated"), log.run("larger_batch")
    assert accumulated is not None and base is not None
    assert accumulated.micro_batch * accumulated.num_micro_batches == base.micro_batch
    assert "one device" in log.skipped["ddp"]


def test_a_rung_that_fails_leaves_the_next_one_its_own_base(monkeypatch: pytest.MonkeyPatch, pretend: None, tmp_path: Path) -> None:
    """Without compilation the padded vocabulary is compared with fused attention."""

    def without_a_compiler(order: Order, *rest: Any) -> Run:
        if order.run.compiled:
            raise RuntimeError("no compiler")
        return pretended(order, *rest)

    monkeypatch.setattr(milestone, "measured", without_a_compiler)
    log = climb(tmp_path)
    padded = log.run("padded_vocabulary")
    assert padded is not None and padded.base == "fused_attention"
    assert log.skipped["compiled"] == "no compiler"


def test_a_precision_that_is_slower_is_shown_and_not_built_upon(monkeypatch: pytest.MonkeyPatch, pretend: None, tmp_path: Path) -> None:
    """As on a CPU without bf16 units: fused attention is compared with fp32."""

    def slow_in_bf16(order: Order, *rest: Any) -> Run:
        run = pretended(order, *rest)
        return dataclasses.replace(run, step_s=(100.0,) * 3) if run.precision == "bf16" else run

    monkeypatch.setattr(milestone, "measured", slow_in_bf16)
    log = climb(tmp_path)
    fused = log.run("fused_attention")
    assert log.run("bf16") is not None
    assert fused is not None and (fused.base, fused.precision) == ("fp32", "fp32")


def test_patience_ends_a_slow_run_after_two_steps() -> None:
    """Two steps are timed in any case, and no more when they take long."""
    run = first_run(default_plan(CPU, preset="tiny", micro_batch=1))
    seen = measure(Order(run, "cpu", 1, 9, 9, 200, patience_s=0.0), CPU, 0)
    assert (len(seen.step_s), len(seen.losses)) == (2, 4)


def test_a_spent_budget_is_gone_on_from(pretend: None, tmp_path: Path) -> None:
    """What was measured stays, the rest is measured by the same command."""
    first = climb(tmp_path, only=("fp32", "bf16"))
    assert [run.name for run in first.runs] == ["fp32", "bf16"]
    assert climb(tmp_path, budget_s=0.0).runs == first.runs
    assert len(climb(tmp_path).runs) == 11


def test_a_log_of_another_plan_is_not_touched(pretend: None, tmp_path: Path) -> None:
    """Runs of two plans have nothing to do with each other."""
    climb(tmp_path, only=("fp32",))
    with pytest.raises(ValueError, match="another plan"):
        climb(tmp_path, steps=99)


@pytest.mark.parametrize(
    "changes",
    [{"precision": "fp16"}, {"micro_batch": 2, "num_micro_batches": 2}, {"recompute": "full"}, {"precision": "bf16", "config": NARROW}],
    ids=["fp16 with the scaler", "accumulated", "recomputed", "in a narrow stream"],
)
def test_the_students_pieces_are_what_runs(changes: dict[str, Any]) -> None:
    """Loss curves are those of the plain run, within what 16 bits round."""
    plain = first_run(default_plan(CPU, preset="tiny", micro_batch=4))
    orders = [Order(run, "cpu", 1, 2, 3, 200) for run in (plain, dataclasses.replace(plain, **changes))]
    expected, seen = (measure(order, CPU, 0) for order in orders)
    assert seen.losses == pytest.approx(expected.losses, rel=2**-9)
    assert len(seen.step_s) == 3 and len(seen.losses) == 5
    assert seen.peak_bytes > 16 * num_parameters(seen.config)


def test_killed_it_goes_on_from_where_it_was(tmp_path: Path) -> None:
    """The first run survives a kill to the digit, and two gloo ranks train with the student's DDP after it."""
    log = tmp_path / "log.json"
    command = [sys.executable, str(PROGRAM), "--measure", "--out", str(tmp_path), *TINY, "--only", "fp32", "ddp"]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    for line in program.stdout:
        if line.startswith("fp32"):
            break
    program.send_signal(signal.SIGKILL)
    program.wait()
    before = json.loads(log.read_text())["runs"]
    assert [run["name"] for run in before] == ["fp32"]
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "going on from there" in again.stdout
    first, ddp = read_log(log).runs
    assert first == run_from(before[0])
    assert (ddp.world_size, ddp.base, ddp.all_reduce_bytes) == (2, "fp32", 4 * num_parameters(ddp.config))
    assert ddp.all_reduce_s is not None and ddp.all_reduce_s > 0


def shown(path: Path) -> dict[str, str]:
    """What the notebook's cells show, by the heading above each: read, never executed."""
    cells, found, heading = nbformat.read(path, as_version=4).cells, {}, ""
    for cell in cells:
        heading = cell.source.removeprefix("## ") if cell.cell_type == "markdown" else heading
        for output in cell.get("outputs", []):
            found[heading] = output["data"]["text/html"]
    return found


def without_pictures(body: str) -> str:
    """Pixels depend on fonts; figures don't."""
    return "".join(part if place == 0 else part.split(">", 1)[1] for place, part in enumerate(body.split("<img")))


def test_the_notebook_shows_what_the_log_says(pretend: None, tmp_path: Path) -> None:
    """Every table of the executed notebook is the one that follows from the log; so is the page's."""
    log = climb(tmp_path)
    assert rendering.render(tmp_path, lambda _: None) == 0
    notebook, page = shown(tmp_path / "report.ipynb"), (tmp_path / "report.html").read_text()
    for section in (piece(log) for piece in sections.SECTIONS):
        assert without_pictures(notebook[section.title]) == without_pictures(section.body)
        assert without_pictures(section.body) in without_pictures(page)


def test_an_impossible_log_is_reported_with_its_bound(monkeypatch: pytest.MonkeyPatch, pretend: None, tmp_path: Path) -> None:
    """Status 1, and the run and the bound by name; also where no notebook can be made, which is said."""
    log = climb(tmp_path, only=("fp32",))
    write_log(dataclasses.replace(log, runs=(dataclasses.replace(log.runs[0], peak_bytes=1),)), tmp_path / "log.json")
    monkeypatch.setattr(rendering, "executed", lambda *_: __import__("no_such_client"))
    said: list[str] = []
    assert rendering.render(tmp_path, said.append) == 1
    assert any("fp32 breaks the bound memory" in line for line in said)
    assert any("no notebook" in line for line in said) and (tmp_path / "report.html").exists()


def test_measuring_again_confirms_within_the_band(pretend: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tenth is allowed, more is named."""
    log = climb(tmp_path)
    assert report.compare(log, log)
    slower = tuple(dataclasses.replace(run, step_s=tuple(1.2 * s for s in run.step_s)) for run in log.runs)
    assert not report.compare(dataclasses.replace(log, runs=slower), log)
    assert "not within 10%" in capsys.readouterr().out


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    """In words, with the file's name."""
    (tmp_path / "log.json").write_text('{"format": 1, "runs": 3}')
    with pytest.raises(ValueError, match=r"log\.json is not a log of the milestone"):
        read_log(tmp_path / "log.json")


def test_hardware_that_is_not_in_the_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """MFU over nobody's peak is no MFU."""
    monkeypatch.setattr(milestone, "hardware_here", lambda device, precision: None)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _=None: "Some GPU")
    with pytest.raises(ValueError, match="no row for Some GPU"):
        milestone.hardware_of(default_plan(CPU), torch.device("cuda"))


def test_a_cpus_peak_in_16_bits_is_that_of_fp32_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products may always be made in fp32, so a slower bf16 is no peak."""
    speeds = {"fp32": 2e9, "bf16": 1e9}
    made = {name: Hardware("CPU", (), {name: speed}, None, 0.0, 4e9, "none", 0.0, "") for name, speed in speeds.items()}
    monkeypatch.setattr(milestone, "measured_cpu", lambda name, size=1: made[name])
    hardware = milestone.hardware_of(default_plan(CPU), CPU)
    assert hardware.peak_flops_per_s == {"fp32": 2e9, "bf16": 2e9}
    assert hardware.link_bytes_per_s == 2e9
