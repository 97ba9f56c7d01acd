"""A proof as one table for a terminal, and mutants in a sentence for each assignment."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Column, Table
from rich.text import Text

from grader.selfcheck.findings import MutantTrial, Proof


def table(proof: Proof) -> Table:
    """One row for what holds in each proof and one for everything bad. The summary is the caption."""
    rows = Table("", "proof", Column("finding", overflow="fold"), caption=proof.summary(), caption_justify="left")
    for name in dict.fromkeys(finding.proof for finding in proof.findings):
        mine = [finding for finding in proof.findings if finding.proof == name]
        bad = [finding for finding in mine if not finding.ok]
        if len(bad) < len(mine):
            rows.add_row(Text("ok", style="green"), name, Text(f"{len(mine) - len(bad)} of {len(mine)} findings are good."))
        for finding in bad:
            rows.add_row(Text("BAD", style="bold red"), name, Text.assemble((finding.subject, "bold"), "\n", finding.sentence))
    return rows


def shares(trials: Sequence[MutantTrial]) -> list[str]:
    """A sentence for each assignment: how many are caught with the word that their author expected, and where a student reads it."""
    told = []
    for name in dict.fromkeys(trial.assignment for trial in trials):
        own = [trial for trial in trials if trial.assignment == name]
        caught, first = sum(trial.is_caught for trial in own), sum(trial.is_told_first for trial in own)
        told.append(f"{name}: {caught} of {len(own)} caught with their word, {first} of them in the message that is read first")
    return told
