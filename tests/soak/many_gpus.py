"""Two, four or eight GPUs of one host: the GPU profile, data parallelism scaled beside torch's, meshes, and the simulator's word.

    python -m tests.soak.many_gpus --out FOLDER --limit-s 900                         # profile, scaling and mesh on all GPUs
    python -m tests.soak.many_gpus --out FOLDER --steps scaling,mesh --pretend 4      # anywhere: gloo and a tiny model; times mean nothing

FOLDER/many_gpus.json has what is known at any moment (tests.benchmarks.tables shows it). A point whose ranks die or hang is told and left
out, and the others go on.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as mp

from tests.soak.mesh_points import Point, points, predicted
from tests.soak.mesh_steps import Orders, be_a_rank

from lm.measuring import machine  # isort: skip  # mesh_points says where the solutions lie

ROOT = Path(__file__).parents[2]
PARALLEL = ("data", "sharded_data", "tensor", "pipeline", "context", "expert")
NUM_TIMED = 10
# bfloat16 rounds at 2^-9: the loss once, each product on its way; a collective that is missing or doubled is off by a factor.
AGREES = 2**-6
HUNG_S = 150.0  # without a word: the ranks' own patience is over before
LATE_S = 60.0  # for a point that began in time


def main() -> int:
    """Carry out the steps; 1 if anything is not as it should be."""
    options = parsed()
    options.out.mkdir(parents=True, exist_ok=True)
    os.environ["NCCL_NVLS_ENABLE"] = "0"  # multicast over NVLink, which not every host lends
    num_gpus = options.pretend or torch.cuda.device_count()
    if not num_gpus:
        print("No GPU is here; --pretend 4 plays four.", file=sys.stderr)
        return 2
    # A rank of gloo's talks to its like; a device is asked for its name only where there is one.
    where = machine(torch.device("cpu" if options.pretend else "cuda"))
    document: dict[str, Any] = where | {"num_gpus": num_gpus, "timed_steps": NUM_TIMED, "environment": {"NCCL_NVLS_ENABLE": "0"}}
    until_s = time.time() + options.limit_s
    steps = options.steps.split(",")
    bad = measured(options, points(steps, num_gpus, bool(options.pretend)), num_gpus, until_s, document)
    if "profile" in steps:
        bad |= profile(options, until_s, document)
    print(f"{'not all is well' if bad else 'all is well'}: {options.out / 'many_gpus.json'}", flush=True)
    return int(bad)


# --- scaling and mesh ------------------------------------------------------------------------------------------------
def measured(options: argparse.Namespace, left: list[Point], num_gpus: int, until_s: float, document: dict[str, Any]) -> bool:
    """Every point for which there is time into `document`; whether any failed, or disagrees with the whole model."""
    rows: dict[str, Any] = document.setdefault("points", {})
    turn = 0
    while left and time.time() < until_s:
        folder = options.out / f"turn{turn}"
        folder.mkdir()
        orders = Orders(left, folder.absolute(), (folder / "store").absolute(), not options.pretend, NUM_TIMED, until_s)
        trouble = by_ranks(orders, num_gpus)
        known = [json.loads(path.read_text()) for number in range(len(left)) if (path := folder / f"{number}.json").exists()]
        for point, seen in zip(left, known, strict=False):
            told(rows, point, seen | {"ok": agrees(seen)}, where=document, pretend=bool(options.pretend))
        left = left[len(known) :]
        if trouble and left:
            told(rows, left.pop(0), {"ok": False, "error": trouble[-1500:]}, where=document, pretend=bool(options.pretend))
        document["efficiency"] = efficiencies(rows)
        write(options, document)
        turn += 1
        if not trouble:
            break
    document["no_time_for"] = [point.name for point in left]
    write(options, document)
    return not all(row["ok"] for row in rows.values())


def by_ranks(orders: Orders, num_gpus: int) -> str:
    """Start a rank for each GPU and wait; why they ended before their time, "" if they didn't."""
    ranks = mp.spawn(be_a_rank, (num_gpus, orders), nprocs=num_gpus, join=False)
    assert ranks is not None
    num_known, heard_s = 0, time.time()
    try:
        while not ranks.join(timeout=2.0):
            now_known = len(list(orders.folder.glob("*.json")))
            num_known, heard_s = now_known, heard_s if now_known == num_known else time.time()
            if time.time() > min(heard_s + HUNG_S, orders.until_s + LATE_S):
                return f"no word for {time.time() - heard_s:.0f} s"
    except Exception as error:  # torch raises what a rank said; of one that was killed, an error of its own
        return str(error).strip()
    finally:
        for process in ranks.processes:
            process.kill()
    return ""


def agrees(seen: dict[str, Any]) -> bool:
    """Whether loss and gradient are those of the whole model, and training gets somewhere."""
    pairs = (("loss", "whole_loss"), ("gradient_norm", "whole_gradient_norm"))
    return all(abs(seen[one] / seen[other] - 1) < AGREES for one, other in pairs) and seen["last_loss"] < seen["loss"]


def told(rows: dict[str, Any], point: Point, seen: dict[str, Any], *, where: dict[str, Any], pretend: bool) -> None:
    """Keep a point with what the simulator says of it, and say it."""
    row = {"step": point.step, "preset": point.preset, "way": point.way, "tokens": point.tokens, "plan": asdict(point.plan), **seen}
    row["simulated"] = predicted(point, str(where["device"]), pretend)
    if "step_ms" in row:
        row["tokens_per_s"] = round(1e3 * point.plan.global_batch * point.tokens / row["step_ms"])
        if row["simulated"]:
            row["simulated_over_measured"] = round(row["simulated"]["step_ms"] / row["step_ms"], 3)
    rows[point.name] = row
    shown = ("step_ms", "simulated_over_measured", "loss", "whole_loss", "gradient_norm", "whole_gradient_norm", "error")
    brief = {name: row[name] for name in shown if name in row}
    print(f"{'  ' if row['ok'] else '! '}{point.name}: {json.dumps(brief)}", flush=True)


def efficiencies(rows: dict[str, Any]) -> dict[str, Any]:
    """Way -> ranks -> the step on one rank over the step on so many, each with its own share of work; and the simulator's word on it."""
    found: dict[str, dict[str, Any]] = {}
    scaling = {(row["way"], row["plan"]["dp"]): row for row in rows.values() if row["step"] == "scaling" and "step_ms" in row}
    for (way, num_ranks), row in scaling.items():
        one = scaling.get((way, 1))
        if one is None or way == "alone":
            continue
        seen = {"measured": round(one["step_ms"] / row["step_ms"], 4)}
        if row["simulated"]:
            seen["simulated"] = round(one["simulated"]["step_ms"] / row["simulated"]["step_ms"], 4)
        peer = scaling.get((way.replace("course_ddp", "torch_ddp").replace("course_fsdp", "torch_fsdp2"), num_ranks))
        if way.startswith("course") and peer:
            seen["over_torch"] = round(row["step_ms"] / peer["step_ms"], 4)
        found.setdefault(way, {})[str(num_ranks)] = seen
    return found


# --- profile ---------------------------------------------------------------------------------------------------------
def profile(options: argparse.Namespace, until_s: float, document: dict[str, Any]) -> bool:
    """The reference solutions of six assignments on all GPUs, by gpu_profile; whether anything was wrong, or no time for it."""
    seen = document.setdefault("profile", {})
    for name in PARALLEL:
        left_s, folder = until_s - time.time(), options.out / "profile" / name
        if left_s <= 0:
            seen[name] = {"ok": False, "failures": ["no time"]}
            continue
        # It ends its own processes when their time is over, and is therefore not ended from here.
        command = [sys.executable, "-m", "tests.soak.gpu_profile", "--steps", "trial,gpu", "--times", "1", "--out", str(folder)]
        command += ["--assignment", f"{name}_parallel", "--limit-s", str(left_s), "--pretend", str(options.pretend)]
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        summary = folder / "summary.json"
        seen[name] = (json.loads(summary.read_text()) if summary.exists() else {}) | {"ok": status == 0}
        write(options, document)
    return not all(each["ok"] for each in seen.values())


def write(options: argparse.Namespace, document: dict[str, Any]) -> None:
    """What is known, whole at any moment."""
    place, now = options.out / "many_gpus.json", datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    place.with_suffix(".part").write_text(json.dumps(document | {"ended": now}, indent=1) + "\n")
    os.replace(place.with_suffix(".part"), place)


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit-s", type=float, default=900.0, help="no point begins later, and the profile's runs end then")
    parser.add_argument("--steps", default="scaling,mesh,profile", help="of scaling, mesh and profile; the profile comes last")
    parser.add_argument("--pretend", type=int, default=0, metavar="N", help="play N GPUs on the host")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
