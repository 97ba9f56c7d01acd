"""Draw the loss of one or several training logs over the time they took.

python tests/benchmarks/plot_loss.py run.jsonl --out loss.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no display is needed

import matplotlib.pyplot as plt


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the records of a training log, in their order."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def training_seconds(records: list[dict[str, Any]]) -> dict[int, float]:
    """Return the time spent up to each logged step: the process's CPU time on a CPU, which may be shared; the steps' wall time on a GPU."""
    on_cpu = next(record["device"] for record in records if record["event"] == "start") == "CPU"
    elapsed_s, last_step, seconds = 0.0, 0, {}
    for record in records:
        if record["event"] == "step":
            elapsed_s += (record["step"] - last_step) * record["step_s"]
            last_step = record["step"]
            seconds[last_step] = record["process_cpu_s"] if on_cpu else elapsed_s
    return seconds


def draw(logs: list[Path], out: Path) -> None:
    """Write the plot: training loss as lines, validation loss as points on them."""
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for path in logs:
        records = read_log(path)
        seconds = training_seconds(records)
        steps = [record for record in records if record["event"] == "step"]
        evaluations = [record for record in records if record["event"] == "evaluation"]
        start = next(record for record in records if record["event"] == "start")
        label = f"{start['num_parameters'] / 1e6:.1f} M parameters, {start['device']}, {start['flags']['precision']}"
        (line,) = axes.plot([seconds[r["step"]] for r in steps], [r["loss"] for r in steps], linewidth=1.2, label=label)
        axes.plot(
            [seconds[r["step"]] for r in evaluations], [r["loss"] for r in evaluations], "o", color=line.get_color(), label="validation"
        )
    axes.set_xlabel("CPU time (s)" if start["device"] == "CPU" else "training time (s)")
    axes.set_ylabel("loss (nats per token)")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(out, dpi=120)


def main() -> None:
    """Read the flags and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("loss.png"))
    options = parser.parse_args()
    draw(options.logs, options.out)


if __name__ == "__main__":
    main()
