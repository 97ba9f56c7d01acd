"""A proof as one table for a terminal."""

from __future__ import annotations

from rich.table import Column, Table
from rich.text import Text

from grader.selfcheck.findings import Proof


def table(proof: Proof, *, is_full: bool = False) -> Table:
    """One row for what holds in each proof and one for everything bad; with `is_full` one for every finding. The summary is the caption."""
    rows = Table("", "proof", Column("finding", overflow="fold"), caption=proof.summary(), caption_justify="left")
    for name in dict.fromkeys(finding.proof for finding in proof.findings):
        mine = [finding for finding in proof.findings if finding.proof == name]
        bad = [finding for finding in mine if not finding.ok]
        if not is_full and len(bad) < len(mine):
            rows.add_row(Text("ok", style="green"), name, Text(f"{len(mine) - len(bad)} of {len(mine)} findings are good."))
        for finding in mine if is_full else bad:
            verdict = Text("ok", style="green") if finding.ok else Text("BAD", style="bold red")
            rows.add_row(verdict, name, Text.assemble((finding.subject, "bold"), "\n", finding.sentence))
    return rows
