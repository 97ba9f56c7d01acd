"""One notebook for each assignment, for machines that are not the student's own: Kaggle, Colab. Install, write, grade, collect."""

from __future__ import annotations

from collections.abc import Mapping

from grader.records import Assignment
from grader.release.texts import render


def notebook_of(assignment: Assignment, stubs: Mapping[str, str], archive: str, url: str) -> bytes:
    """The notebook's bytes, the same for the same texts. `stubs`: the starter's text of each file; `archive`: the bundle's file name."""
    import nbformat
    from nbformat import v4

    facts = {"assignment": assignment, "archive": archive, "url": url}
    cells = [
        v4.new_markdown_cell(render("notebook_title.md.j2", **facts)),
        v4.new_code_cell(render("notebook_find.py.j2", **facts)),
        v4.new_code_cell("!{sys.executable} -m pip install --quiet --editable ."),
        *(v4.new_code_cell(f"%%writefile starter/{file}\n{text.rstrip()}") for file, text in stubs.items()),
        v4.new_code_cell(f"!{{sys.executable}} -m grader.cli grade --assignment {assignment.name}"),
        v4.new_code_cell(render("notebook_collect.py.j2", **facts)),
    ]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"  # nbformat draws them by lot
        cell.source = cell.source.rstrip("\n")
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}}
    text: str = nbformat.writes(v4.new_notebook(cells=cells, metadata=kernel), indent=1)
    return f"{text}\n".encode()
