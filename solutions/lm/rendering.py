"""From log.json to report.ipynb, executed, and report.html. Every figure in both is derived by your mfu_report.py."""

from __future__ import annotations

import html
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lm.runlog import read_log
from lm.sections import SECTIONS, Section

STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1c1e21}"
    "table{border-collapse:collapse}td,th{padding:.25rem .7rem;border-bottom:1px solid #d5d8dd;text-align:left;vertical-align:top}"
    "td{font-variant-numeric:tabular-nums}img{max-width:100%;display:block}"
)
TITLE = "The milestone: one change at a time"
LOADING = "from pathlib import Path\nfrom lm import sections\nfrom lm.runlog import read_log\nlog = read_log(Path('log.json'))"


def render(folder: Path, say: Callable[[str], None]) -> int:
    """Write notebook and page beside the folder's log.json. Return 0, or 1 if check_log finds the log impossible."""
    import mfu_report  # yours

    log = read_log(folder / "log.json")
    broken = mfu_report.check_log(log)
    pieces = [section(log) for section in SECTIONS]
    replace(folder / "report.html", page(pieces))
    say(f"{folder / 'report.html'} is written")
    try:
        notebook = executed(notebook_of(pieces), folder)
    except ImportError as error:
        say(f"no notebook: {error}. `make setup` installs what it needs; then report.py --render")
    else:
        import nbformat

        replace(folder / "report.ipynb", nbformat.writes(notebook) + "\n")
        say(f"{folder / 'report.ipynb'} is written")
    for each in broken:
        say(f"impossible: {each.run} breaks the bound {each.bound}: {each.sentence}")
    return 1 if broken else 0


def page(pieces: list[Section]) -> str:
    """Return one HTML page that needs nothing beside it."""
    body = "".join(f"<h2>{html.escape(piece.title)}</h2>{piece.body}" for piece in pieces)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{TITLE}</title><style>{STYLE}</style><h1>{TITLE}</h1>{body}</html>\n'
    )


def notebook_of(pieces: list[Section]) -> Any:
    """Return the notebook, not executed: a heading and a cell of code for every section."""
    from nbformat import v4

    cells = [v4.new_markdown_cell(f"# {TITLE}\n\nAll figures are derived from `log.json` by `mfu_report.py`."), v4.new_code_cell(LOADING)]
    for piece, section in zip(pieces, SECTIONS, strict=True):
        cells += [v4.new_markdown_cell(f"## {piece.title}"), v4.new_code_cell(f"sections.{section.__name__}(log)")]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # random ones would make every rendering another file
    return v4.new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}})


def executed(notebook: Any, folder: Path) -> Any:
    """Run the notebook in a kernel of its own, in `folder`, with this program's modules at hand."""
    from nbclient import NotebookClient

    here = str(Path(__file__).resolve().parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])}
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}, record_timing=False
    )
    return client.execute(env=environment)


def replace(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
