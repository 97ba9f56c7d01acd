"""The GPU profile on real GPUs: solutions earn everything, sampled mutants die of their laws, as root and as a user; nothing is left.

    python -m tests.soak.gpu_profile --steps cpu --out FOLDER                    # anywhere: the CPU's marks
    python -m tests.soak.gpu_profile --steps trial,gpu,mutants,user --out FOLDER # where GPUs are: on top of them, if they are there

Every assignment is judged by a process of its own with its own time limit; what is known is in FOLDER/summary.json at any moment.
`--pretend N` plays N GPUs on the host.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from grader import devices
from grader.course import find_root, load, select
from grader.gpu_stage import add_gpu_stage, judge_on_gpus
from grader.gpu_trial import trial
from grader.observe.profile import GpuProfile
from grader.pipeline import environment, grade, opened_runs, taken_in
from grader.policy import without_rules
from grader.records import CaseVerdict, MiB, Report
from grader.report.files import read, write_all
from grader.selfcheck.overlays import load_overlay

ROOT = Path(__file__).parents[2]
NOBODY = 65534
SLACK_BYTES = 64 * MiB  # what the driver itself may keep; a context that was left holds hundreds


def main() -> int:
    """Run the steps; 1 if anything is not as it should be."""
    options = parsed()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.one:
        write(options.out, STEPS[options.one](options, options.assignment[0]))
        return 0
    summary = Summary(options)
    gpus = profile_of(options).gpus
    before = {gpu.uuid: gpu.used_bytes for gpu in gpus}
    summary.add("machine", environment() | devices.facts(gpus) | {"user": str(os.geteuid())})
    names = [each.name for each in select(load(ROOT), options.assignment)]
    for step in options.steps.split(","):
        if step == "trial":
            summary.add("trial", timed(lambda: {"ok": not (trouble := trial(profile_of(options))), "trouble": trouble}))
            if summary.bad:
                break  # no device time for what can't be
        elif step == "user":
            summary.add("user", as_user(options))
        else:
            for turn in range(options.times if step == "gpu" else 1):
                for name in names:
                    label = f"{step} {name}" + (f" {turn + 1}" if step == "gpu" else "")
                    summary.add(label, in_a_process(options, step, name, options.out / label.replace(" ", "/")))
    summary.add("left", left_over(options, before))
    print(f"{'not all is well' if summary.bad else 'all is well'}: {options.out / 'summary.json'}", flush=True)
    return 1 if summary.bad else 0


class Summary:
    """What is known so far, on disk at any moment."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._path, self._found = options.out / "summary.json", {}
        self.bad = False

    def add(self, label: str, found: dict[str, Any]) -> None:
        """Keep and say it."""
        self._found[label] = found
        self.bad |= not found.get("ok", True)
        self._path.write_text(json.dumps(self._found, indent=1))
        brief = {name: value for name, value in found.items() if name not in ("failures", "log", "environment")}
        print(f"{'  ' if found.get('ok', True) else '! '}{label}: {json.dumps(brief)[:600]}", flush=True)
        for failure in found.get("failures", [])[:12]:
            print(f"      {json.dumps(failure)[:500]}", flush=True)


# --- steps of one assignment, each in a process of its own -----------------------------------------------------------
def cpu(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """The CPU's marks of the solution, kept for the GPU stage."""
    course = load(ROOT)
    report = grade(course, ROOT / "solutions", select(course, [name]), out=options.out)
    return account(report)


def gpu(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """The GPU stage on the CPU's marks, or alone with every law where there are none."""
    course, told = load(find_root(ROOT)), progress(name)
    assignments = select(course, [name])
    before = options.cpu / "cpu" / name
    with opened_runs(course.root, options.out) as runs:
        if (before / "report.json").exists():
            report = add_gpu_stage(
                course, read(before), ROOT / "solutions", assignments, profile=profile_of(options), runs=runs, told=told,
                ranks_at_once=options.ranks_at_once, is_tried=True,
            )  # fmt: skip
            write_all(report, options.out)
            return account(report) | {"notes": report.notes}
        with taken_in(ROOT / "solutions", assignments, runs, profile_of(options).flavours) as observer:
            laws = [law.id for each in assignments for law in each.laws()]
            judged = judge_on_gpus(course, assignments, observer, profile_of(options), laws=laws, told=told,
                                   ranks_at_once=options.ranks_at_once)  # fmt: skip
    bad = [verdict for verdict in judged.verdicts if verdict.outcome != "passed"]
    return {"ok": not bad, "cases": len(judged.verdicts), "runs": judged.num_observations, "wall_s": round(judged.wall_s, 1),
            "kept": dict(judged.kept), "laws": len({verdict.law for verdict in judged.verdicts}), "left": judged.left,
            "failures": [told_of(verdict) for verdict in bad]}  # fmt: skip


def mutants(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """Sampled mutants, on the law that each names, on GPUs alone."""
    course = load(find_root(ROOT))
    assignment = without_rules(select(course, [name])[0])
    paths = sorted((ROOT / "tests" / "mutants" / name).glob("*.py"))
    random.Random(options.seed).shuffle(paths)
    died, survived, kept, began_s = [], [], [], time.monotonic()
    with opened_runs(course.root, None) as runs:
        for number, path in enumerate(paths):
            if len(died) + len(survived) >= options.mutants:
                break
            overlay = load_overlay(course, assignment, path)
            written = overlay.write(course, assignment, options.out / f"mutant-{number}")
            with taken_in(written, [assignment], runs, profile_of(options).flavours) as observer:
                judged = judge_on_gpus(course, [assignment], observer, profile_of(options), laws=[overlay.header.law])
            outcomes = {verdict.outcome for verdict in judged.verdicts}
            (died if "failed" in outcomes else survived if outcomes else kept).append(path.stem)
            progress(name)(f"{path.stem}: {', '.join(outcomes) or 'judged on the CPU only'}")
    return {"ok": True, "died": len(died), "survived_there": survived, "judged_on_the_cpu_only": len(kept),
            "wall_s": round(time.monotonic() - began_s, 1)}  # fmt: skip


STEPS = {"cpu": cpu, "gpu": gpu, "mutants": mutants}


def in_a_process(options: argparse.Namespace, step: str, name: str, out: Path) -> dict[str, Any]:
    """The step on one assignment; killed with all that it started when its time is over."""
    command = [sys.executable, "-m", "tests.soak.gpu_profile", "--one", step, "--assignment", name,
               "--out", str(out), "--cpu", str(options.cpu),
               "--mutants", str(options.mutants), "--seed", str(options.seed), "--pretend", str(options.pretend),
               *(["--ranks-at-once", str(options.ranks_at_once)] if options.ranks_at_once else [])]  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    began_s = time.monotonic()
    with (out / "log.txt").open("w") as log:
        child = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = child.wait(options.limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGINT)
            try:
                child.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
            status = "its time was over"
    found = out / "found.json"
    if status != 0 or not found.exists():
        log_text = (out / "log.txt").read_text()[-3000:]
        return {"ok": False, "status": status, "wall_s": round(time.monotonic() - began_s, 1), "failures": [log_text]}
    return json.loads(found.read_text()) | {"whole_s": round(time.monotonic() - began_s, 1)}


# --- the machine -----------------------------------------------------------------------------------------------------
def as_user(options: argparse.Namespace) -> dict[str, Any]:
    """The trial again without root's rights, on a copy of the course that anybody may read."""
    if os.geteuid() != 0:
        return {"ok": True, "why": "this is no root already"}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        home.chmod(0o777)
        for name in ("grader", "tests", "solutions", "assignments"):
            shutil.copytree(ROOT / name, home / "course" / name, ignore=shutil.ignore_patterns("__pycache__"))
        path = [str(home / "course")]
        for number, entry in enumerate(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))):
            path.append(str(shutil.copytree(entry, home / f"path{number}", dirs_exist_ok=True)) if Path(entry).is_dir() else entry)
        environment_ = os.environ | {"HOME": folder, "TMPDIR": folder, "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"}
        code = f"from tests.soak.gpu_profile import try_it; try_it({options.pretend})"
        try:
            run = subprocess.run([sys.executable, "-c", code], cwd=home / "course", env=environment_, user=NOBODY, group=NOBODY,
                                 extra_groups=[], capture_output=True, text=True, timeout=options.limit_s)  # fmt: skip
        except (OSError, subprocess.SubprocessError) as refused:
            return {"ok": False, "failures": [str(refused)]}
    lines = run.stdout.strip().splitlines()
    return json.loads(lines[-1]) if lines and not run.returncode else {"ok": False, "failures": [run.stderr[-2000:]]}


def try_it(pretend: int) -> None:
    """The trial, told in a line of JSON."""
    trouble = trial(GpuProfile(gpus_of(pretend), "pretend" if pretend else "cuda"))
    print(json.dumps({"ok": not trouble, "trouble": trouble}))


def left_over(options: argparse.Namespace, before: dict[str, int]) -> dict[str, Any]:
    """Processes, memory and shared files that should be gone."""
    time.sleep(1.0)  # the driver takes a moment to count again
    tenants = [str(tenant) for tenant in devices.tenants()]
    more = {gpu.uuid: gpu.used_bytes - before.get(gpu.uuid, 0) for gpu in profile_of(options).gpus}
    grown = {uuid: num_bytes for uuid, num_bytes in more.items() if num_bytes > SLACK_BYTES}
    shared = [str(path) for path in Path("/dev/shm").glob("nccl-*")] if Path("/dev/shm").exists() else []
    return {"ok": not tenants and not grown, "tenants": tenants, "grown_bytes": grown, "shared_files": shared}


def gpus_of(pretend: int) -> tuple[devices.Gpu, ...]:
    """The machine's, or pretended ones."""
    return tuple(devices.Gpu(n, f"GPU-pretend-{n}", "pretended GPU", "none", 0, 0) for n in range(pretend)) if pretend else devices.found()


def profile_of(options: argparse.Namespace) -> GpuProfile:
    """The GPUs of this soak."""
    return GpuProfile(gpus_of(options.pretend), "pretend" if options.pretend else "cuda")


# --- words -----------------------------------------------------------------------------------------------------------
def account(report: Report) -> dict[str, Any]:
    """Marks, and every case that did not pass."""
    laws = [law for each in report.assignments for task in each.tasks for law in task.laws]
    cases = [case for law in laws for case in law.cases if case.outcome not in ("passed", "not_judged")]
    return {"ok": report.earned == report.possible and not report.waits_for, "earned": report.earned, "possible": report.possible,
            "laws_on_gpu": sum("gpu" in law.judged_on for law in laws), "laws": len(laws), "wall_s": round(report.wall_s, 1),
            "failures": [told_of(case) for case in cases]}  # fmt: skip


def told_of(case: CaseVerdict) -> dict[str, Any]:
    """One case that did not pass, for whoever mends it."""
    message = asdict(case.message) if case.message else {}
    return {"law": case.law, "case": case.id, "outcome": case.outcome, "seen": message.get("seen", ""), "staff": case.staff[:6000]}


def progress(name: str) -> Any:
    """Says each step into the log."""
    return lambda sentence: print(f"{time.strftime('%H:%M:%S')} {name}: {sentence}", flush=True)


def timed(step: Any) -> dict[str, Any]:
    """What the step found, and how long it took."""
    began_s = time.monotonic()
    return step() | {"wall_s": round(time.monotonic() - began_s, 1)}


def write(out: Path, found: dict[str, Any]) -> None:
    """For the process that waits."""
    (out / "found.json").write_text(json.dumps(found))


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", default="trial,gpu,mutants,user", help="of cpu, trial, gpu, mutants, user; in this order")
    parser.add_argument("--assignment", action="append", default=[])
    parser.add_argument("--times", type=int, default=2, help="how often the solutions are judged on GPUs")
    parser.add_argument("--mutants", type=int, default=4, help="how many of each assignment's are judged on GPUs")
    parser.add_argument("--limit-s", type=float, default=300.0, help="of one step on one assignment")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranks-at-once", type=int, default=None, help="ranks side by side [default: four on each GPU]")
    parser.add_argument("--pretend", type=int, default=0)
    parser.add_argument("--one", choices=sorted(STEPS), help=argparse.SUPPRESS)
    parser.add_argument("--cpu", type=Path, default=None, help="the folder with the CPU's marks [default: --out]")
    options = parser.parse_args()
    options.cpu = options.cpu or options.out
    return options


if __name__ == "__main__":
    sys.exit(main())
