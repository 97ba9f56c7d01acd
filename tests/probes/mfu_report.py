"""What runs beside a submission to `mfu_report`: it hands configs, runs and logs to it and returns its figures. No expected values.

A log comes as arrays, a row for each run: "sizes" (in the order of SIZES), "numbers" (in the order of NUMBERS), "steps" and "losses"; what
is a name or a switch is in `runs`, one entry for each. "peaks" and "machine" are the hardware.
"""

from __future__ import annotations

from typing import Any

import torch

SIZES = ("vocab_size", "max_tokens", "num_layers", "hidden_size", "num_heads", "num_kv_heads", "mlp_size")
NUMBERS = (
    "sequence", "micro_batch", "num_micro_batches", "world_size", "peak_bytes", "all_reduce_bytes", "all_reduce_s", "link_latency_s"
)  # fmt: skip
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
NAMED = ("name", "base", "precision", "compiled", "recompute", "data_parallel")
ROW = (
    "tokens_per_s", "mfu", "hfu", "peak_gib", "speed_up", "efficiency", "sent_bytes", "predicted_s", "all_reduce_s", "share"
)  # fmt: skip


# --- single figures --------------------------------------------------------------------------------------------------
def flops(at: Any, *, options: list[dict[str, Any]], ways: list[list[Any]]) -> dict[str, torch.Tensor]:
    """flops_per_token of each config (a row of "sizes", the rest in `options`) at its sequence and way (causal, recompute)."""
    from lm.gpt import GPTConfig

    figures = []
    asked = zip(at.inputs["sizes"].tolist(), at.inputs["sequences"].tolist(), options, ways, strict=True)
    for row, sequence, rest, (causal, recompute) in asked:
        config = GPTConfig(**dict(zip(SIZES, row, strict=True)), **rest)
        figures.append(number(at.submission.flops_per_token(config, sequence, causal=causal, recompute=recompute), "flops_per_token"))
    return {"counted": column(figures)}


def rates(at: Any, *, runs: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """tokens_per_s, and mfu and hfu by both counts of attention (full, causal), of each run; and the FLOPs that they rest on."""
    log = log_of(at, runs)
    rows: dict[str, list[Any]] = {"tokens_per_s": [], "mfu": [], "hfu": [], "needed": [], "done": []}
    for run in log.runs:
        rows["tokens_per_s"].append(number(at.submission.tokens_per_s(run), "tokens_per_s"))
        for name in ("mfu", "hfu"):
            function = getattr(at.submission, name)
            rows[name].append([number(function(run, log.hardware, causal=causal), name) for causal in (False, True)])
        for name, recompute in (("needed", "none"), ("done", run.recompute)):
            figures = [at.submission.flops_per_token(run.config, run.sequence, causal=c, recompute=recompute) for c in (False, True)]
            rows[name].append([number(figure, "flops_per_token") for figure in figures])
    return {name: column(row) for name, row in rows.items()}


def tokens(at: Any, *, runs: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """tokens_per_s of each run."""
    return {"tokens_per_s": column([number(at.submission.tokens_per_s(run), "tokens_per_s") for run in log_of(at, runs).runs])}


def ring(at: Any, *, what: str) -> dict[str, torch.Tensor]:
    """`what` (volume or time) of each row of "messages": bytes, ranks, bytes/s, latency."""
    figures = []
    for message_bytes, world_size, link_bytes_per_s, latency_s in at.inputs["messages"].tolist():
        size, ranks = int(message_bytes), int(world_size)
        if what == "volume":
            figures.append(number(at.submission.ring_all_reduce_bytes(size, ranks), "ring_all_reduce_bytes"))
        else:
            predict = at.submission.predicted_all_reduce_seconds
            figure = predict(size, ranks, link_bytes_per_s=link_bytes_per_s, latency_s=latency_s)
            figures.append(number(figure, "predicted_all_reduce_seconds"))
    return {"counted": column(figures)}


def efficiencies(at: Any, *, runs: list[dict[str, Any]], pairs: list[list[int]]) -> dict[str, torch.Tensor]:
    """scaling_efficiency of each pair (run, alone) of a log's runs."""
    log = log_of(at, runs)
    figures = [at.submission.scaling_efficiency(log.runs[run], log.runs[alone]) for run, alone in pairs]
    return {"counted": column([number(figure, "scaling_efficiency") for figure in figures])}


def refusals(at: Any, *, function: str, runs: list[dict[str, Any]], arguments: list[list[Any]]) -> None:
    """What the function does with arguments that it must refuse: for each the exception's type, or "nothing" where it returned."""
    log = log_of(at, runs)
    outcomes = []
    for given in arguments:
        try:
            if function == "flops_per_token":
                at.submission.flops_per_token(log.runs[0].config, log.runs[0].sequence, causal=False, recompute=given[0])
            elif function == "scaling_efficiency":
                at.submission.scaling_efficiency(log.runs[given[0]], log.runs[given[1]])
            else:
                getattr(at.submission, function)(log.runs[given[0]], log.hardware)
            outcomes.append("nothing")
        except NotImplementedError:
            raise
        except Exception as raised:
            outcomes.append(type(raised).__name__)
    at.report(outcomes=outcomes)


# --- logs ------------------------------------------------------------------------------------------------------------
def checked(at: Any, *, runs: list[dict[str, Any]]) -> None:
    """The pairs of run and bound that check_log names."""
    at.report(violations=[[str(each.run), str(each.bound)] for each in at.submission.check_log(log_of(at, runs))])


def rows(at: Any, *, runs: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """summarise's rows: the figures, NaN for None; the names are reported."""
    log = log_of(at, runs)
    table = list(at.submission.summarise(log))
    at.report(names=[str(row.name) for row in table], num_rows=len(table))
    figures = [[figure_of(row, name) for name in ROW] for row in table[: len(runs)]]
    figures += [[-1.0] * len(ROW)] * (len(runs) - len(figures))  # fewer rows than runs: reported by num_rows
    count = at.submission.flops_per_token
    flops = [[count(run.config, run.sequence, causal=False, recompute=kind) for kind in ("none", run.recompute)] for run in log.runs]
    return {"figures": column(figures), "flops": column(flops)}


def figure_of(row: Any, name: str) -> float:
    """One figure of a row, NaN for None."""
    value = getattr(row, name)
    return float("nan") if value is None else number(value, f"{name} of a Row")


def log_of(at: Any, runs: list[dict[str, Any]]) -> Any:
    """The Log that the arrays and `runs` describe."""
    from lm.gpt import GPTConfig
    from lm.hardware import Hardware
    from lm.runlog import Log, Run

    peaks = {name: peak for name, peak in zip(PRECISIONS, at.inputs["peaks"].tolist(), strict=True) if peak}
    sparse, memory_bytes, memory_bytes_per_s, link_bytes_per_s = at.inputs["machine"].tolist()
    # A table's memory is a round figure; what the device of the log says is a little more.
    table_bytes = 15 / 16 * memory_bytes
    hardware = Hardware("a GPU", (), peaks, sparse or None, table_bytes, memory_bytes_per_s, "a link", link_bytes_per_s, "the judge")
    columns = (at.inputs[name].tolist() for name in ("sizes", "numbers", "steps", "losses"))
    made = []
    for row, figures, steps, losses, named in zip(*columns, runs, strict=True):
        numbers: dict[str, Any] = dict(zip(NUMBERS, figures, strict=True))
        for name in NUMBERS[:6]:
            numbers[name] = int(numbers[name])
        if numbers["all_reduce_s"] < 0:
            numbers["all_reduce_s"] = None
        config = GPTConfig(**dict(zip(SIZES, row, strict=True)), **named["options"])
        num_steps = named.get("num_steps", len(steps))
        given = {name: named[name] for name in NAMED}
        made.append(Run(config=config, step_s=tuple(steps[:num_steps]), losses=tuple(losses), **given, **numbers))
    return Log(hardware=hardware, memory_bytes=int(memory_bytes), runs=tuple(made))


# --- shared ----------------------------------------------------------------------------------------------------------
def number(value: Any, what: str) -> float:
    """`value`, if it is a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} is {type(value).__name__}; expected a number")
    return float(value)


def column(values: list[Any]) -> torch.Tensor:
    """Figures as float64, which holds every integer up to 2**53."""
    return torch.tensor(values, dtype=torch.float64)
