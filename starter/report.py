"""The milestone in one command: climb the ladder, measure data parallelism, and write log.json, report.ipynb and report.html.

python report.py                    # everything; again after a kill: goes on from where it was
python report.py --measure          # log.json only: needs nothing but torch
python report.py --render           # notebook and page from a log.json that is there
python report.py --again log.json   # measure once more, and compare with that log
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from lm.gpt import PRESETS
from lm.ladder import default_plan
from lm.measuring import be_a_rank
from lm.milestone import Milestone
from lm.runlog import Log, Run, read_log

BAND = 0.10  # two measurements of a rung may differ by so much


def make_parser() -> argparse.ArgumentParser:
    """Return the program's flags."""
    parser = argparse.ArgumentParser(prog="report.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--out", type=Path, default=Path("report"), help="folder of log.json, report.ipynb and report.html")
    add("--measure", action="store_true", help="measure only")
    add("--render", action="store_true", help="render only")
    add("--again", type=Path, metavar="LOG", help="measure once more into another folder, and compare")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--preset", choices=sorted(PRESETS), help="default: gpt2-124m on a GPU, 1m on a CPU")
    add("--batch", dest="micro_batch", type=int, metavar="SEQUENCES", help="of the first rung")
    add("--growth", type=int, metavar="N", help="how many times as many in the larger batch; 4 on a GPU, 2 on a CPU")
    add("--warmup", type=int, metavar="STEPS", help="untimed steps, compilation among them")
    add("--steps", type=int, metavar="STEPS", help="timed steps")
    add("--ranks", dest="world_size", type=int, metavar="N", help="after the ladder: all GPUs, or two on a CPU")
    add("--sixteen", choices=("bf16", "fp16"), help="default: bf16 where the device has it")
    add("--budget-s", type=float, metavar="SECONDS", help="begin no run later: 450 on a GPU, 240 on a CPU")
    add("--only", nargs="+", metavar="RUN", help="only these runs, by name")
    add("--rank-of", type=Path, help=argparse.SUPPRESS)  # how the program starts its own ranks
    return parser


def say(sentence: str) -> None:
    """Print one line at once, also into a pipe."""
    print(sentence, flush=True)


def measure(options: argparse.Namespace, folder: Path) -> Log:
    """Climb; ValueError for what the caller can mend."""
    device = torch.device("cuda" if options.device == "cuda" or (options.device == "auto" and torch.cuda.is_available()) else "cpu")
    chosen = ("preset", "micro_batch", "growth", "warmup", "steps", "world_size", "sixteen", "budget_s")
    plan = default_plan(device, **{name: getattr(options, name) for name in chosen})
    if min(plan.warmup, plan.steps) < 2 or min(plan.micro_batch, plan.growth, plan.world_size) < 1:
        raise ValueError("--warmup and --steps are at least 2; --batch, --growth and --ranks at least 1")
    folder.mkdir(parents=True, exist_ok=True)
    return Milestone(plan, device, folder / "log.json", say, Path(__file__).resolve(), options.only or ()).climb()


def compare(log: Log, before: Log) -> bool:
    """Say for every run of `before` whether it is confirmed; whether all are."""
    import mfu_report  # yours

    all_confirmed = True
    for old in before.runs:
        new: Run | None = log.run(old.name)
        if new is None:
            verdict, is_confirmed = f"not measured: {log.skipped.get(old.name, 'unknown here')}", False
        else:
            ratio = mfu_report.tokens_per_s(new) / mfu_report.tokens_per_s(old)
            is_confirmed = abs(ratio - 1) <= BAND
            verdict = f"{ratio:.3f} times the tokens/s: {'confirmed' if is_confirmed else f'not within {BAND:.0%}'}"
        say(f"{old.name:26} {verdict}")
        all_confirmed &= is_confirmed
    return all_confirmed


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the flags say. Status 0; 1 if the log is impossible or not confirmed; 2 for what the caller can mend."""
    parser = make_parser()
    options = parser.parse_args(argv)
    if options.rank_of:
        be_a_rank(options.rank_of)
        return 0
    try:
        if options.again:
            with tempfile.TemporaryDirectory() as folder:
                return 0 if compare(measure(options, Path(folder)), read_log(options.again)) else 1
        if not options.render:
            measure(options, options.out)
        if options.measure:
            return 0
        if not (options.out / "log.json").exists():
            raise ValueError(f"{options.out} holds no log.json: measure first, by the same command without --render")
        from lm.rendering import render  # on demand: measuring needs torch only

        return render(options.out, say)
    except ValueError as error:
        parser.error(str(error))
    except NotImplementedError as stub:
        say(f"log.json is written; the report needs your mfu_report.py: {stub}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
