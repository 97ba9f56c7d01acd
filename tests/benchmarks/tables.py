"""What is kept in tests/benchmarks/results as one page of tables, and its pictures: generated, so that no figure is copied by hand.

    python -m tests.benchmarks.tables                                    # after any change in that folder
    python -m tests.benchmarks.tables --keep races_h200x2.json FILE...   # first add what tests.soak.races has left to that file

A file's form goes by the first words of its name (forms.py); a form that is not known is an error, so that no result stays unshown.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.bars import drawn
from tests.benchmarks.forms import FORMS, Document, Pictures, machine_of

FOLDER = Path(__file__).with_name("results")
PAGE = "README.md"
HEAD = """# What was measured

Made by `python -m tests.benchmarks.tables` from the files beside it; don't edit it. A figure holds for the machine that is named with it;
what carries over to another is a ratio to a peer of the same run. A ratio of 1 is the peer's own speed; its interval holds the median of 95
in 100 races."""
TITLES = {"races.svg": "Speed over the peer's, the latest race of each", "ladder.svg": "GPT-2 124M on one H200: thousand tokens per second"}
MARKS = {"races.svg": 1.0}
ABOUT_RACES = "Races of the reference solutions, and dishonest submissions (tests/soak/races.py)."
KEPT_OF_MARKS = ("against", "state", "earned", "possible", "sentence", "findings", "expected", "found", "ok", "wall_s")
KEPT_OF_ESTIMATES = ("peer_s", "rival_s", "ratio", "low", "high", "fixed_s", "hand_over_s", "num_rounds", "by_slope", "testified")
DIGITS = 4


def written(folder: Path) -> dict[str, str]:
    """Page and pictures, by their file names. Raises ValueError for a file whose form is not known."""
    pictures: Pictures = {}
    sections = [HEAD]
    for path in sorted(folder.glob("*.json")):
        form = next((form for name, form in FORMS.items() if path.name.startswith(f"{name}_")), None)
        if form is None:
            raise ValueError(f"{path} begins with none of {', '.join(FORMS)}: write its form in forms.py")
        document = json.loads(path.read_text(encoding="utf-8"))
        sections += [f"## {path.stem.replace('_', ' ')}", "\n".join(_source(path.name, document)), *form(document, pictures)]
    if "races.svg" in pictures:
        sections.insert(1, "![Speed over the peer's](races.svg)")
    page = "\n\n".join(sections) + "\n"
    return {PAGE: page} | {name: drawn(TITLES[name], bars, mark=MARKS.get(name)) for name, bars in pictures.items()}


def _source(name: str, document: Document) -> Sequence[str]:
    return [f"[{name}]({name})" + (f": {machine_of(document)}" if "device" in document else "")]


def kept(run: Document) -> Document:
    """A run of tests.soak.races without its rounds, to a few digits."""
    marks = {}
    for name, mark in run.items():
        if name != "machine":
            marks[name] = {key: mark[key] for key in KEPT_OF_MARKS if key in mark}
            for which in ("estimate", "alone"):
                if mark.get(which):
                    marks[name][which] = {key: _rounded(mark[which][key]) for key in KEPT_OF_ESTIMATES}
    machine = run["machine"]
    return {name: machine[name] for name in ("date", "commit") if name in machine} | {"machine": machine, "marks": marks}


def _rounded(value: float | bool | None) -> float | bool | None:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def keep(target: Path, sources: Sequence[Path]) -> None:
    """Add runs to a file, which may be new."""
    document = json.loads(target.read_text()) if target.exists() else {"about": ABOUT_RACES, "runs": []}
    document["runs"] += [kept(json.loads(source.read_text())) for source in sources]
    target.write_text(json.dumps(document, indent=1) + "\n")


def main() -> int:
    """Write the page, its pictures, and before it what is to be kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", default="", metavar="NAME", help="of the file to which runs are added")
    parser.add_argument("files", nargs="*", type=Path, help="races.json of tests.soak.races")
    options = parser.parse_args()
    if options.keep:
        keep(FOLDER / options.keep, options.files)
    for name, text in written(FOLDER).items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
