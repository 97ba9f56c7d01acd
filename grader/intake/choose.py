"""Which file of what was handed in stands for which file of the assignment. Downloads rename things; students wrap them in folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from grader.intake.bag import Bag, is_litter
from grader.records import Assignment


def home(bag: Bag, assignment: Assignment) -> tuple[str, str]:
    """The folder of `bag` that holds the assignment's files, and a note if that is not certain.

    The top, if one of them lies there. Else `starter/` of a whole course. Else the folder that holds most of them, and of those the nearest
    to the top. Where no source file is found, notebooks are looked for in the same way.
    """
    folders = {folder: names for folder, names in bag.folders().items() if not folder or not is_litter(folder)}
    for count in (_num_files, _num_notebooks):
        scores = {folder: count(names, assignment.files) for folder, names in folders.items()}
        if scores.get("") and not _starter_of(folders):
            return "", ""
        found = _starter_of(folders)
        if found is not None and scores.get(found):
            return found, ""
        if any(scores.values()):
            return _nearest(scores, assignment)
    return "", ""


def _nearest(scores: dict[str, int], assignment: Assignment) -> tuple[str, str]:
    most = max(scores.values())
    depth = min(folder.count("/") for folder, score in scores.items() if score == most)
    best = [folder for folder, score in scores.items() if score == most and folder.count("/") == depth]
    if len(best) == 1 or "" in best:
        return "" if "" in best else best[0], ""
    where = " and in ".join(f"{folder}/" for folder in best[:3])
    return "", f"{' and '.join(assignment.files)} lies in {where}: hand in one of them. Until then it is not graded."


def _starter_of(folders: dict[str, list[str]]) -> str | None:
    """`starter` of a whole course, which may lie in a folder of its own; its tests/ hold files of the same names."""
    for folder, names in folders.items():
        if {"assignments", "starter", "grader"} <= set(names):
            return f"{folder}/starter" if folder else "starter"
    return None


def _num_files(names: Sequence[str], files: Sequence[str]) -> int:
    return sum(bool(alike(file, names)) for file in files)


def _num_notebooks(names: Sequence[str], _files: Sequence[str]) -> int:
    return int(any(name.lower().endswith(".ipynb") for name in names))


def alike(file: str, names: Iterable[str]) -> list[str]:
    """The names by which a download, an upload form or a second try may have called `file`, the likeliest first.

    `rings.py`, then `Rings.py`, then what bears a number, the highest first (`rings-2.py`, `rings (1).py`, `doe_17_4711_rings.py`,
    `rings.py.txt`), then `rings copy.py`.
    """
    stem, _, ending = file.rpartition(".")
    pattern = re.compile(
        rf"(\w+_\d+_\d+_)?{re.escape(stem)}[ _-]*(?:\(?(\d{{1,9}})\)?|(copy|final|new))?\.{ending}(\.txt)?", re.IGNORECASE
    )
    found = [(name, match) for name in names if (match := pattern.fullmatch(name))]

    def unlikeliness(item: tuple[str, re.Match[str]]) -> tuple[bool, bool, bool, int, str]:
        name, match = item
        return name != file, name.lower() != file.lower(), bool(match[3]), -int(match[2] or 0), name

    return [name for name, _ in sorted(found, key=unlikeliness)]


def standing_for(file: str, names: Sequence[str], where: str) -> tuple[str | None, str]:
    """The name that stands for `file` among `names`, None if none does; and what the student should know."""
    found = alike(file, names)
    if not found:
        return None, f"{file} is not in {where}."
    chosen, others = found[0], found[1:]
    beside = f" {' and '.join(others)} {'is' if len(others) == 1 else 'are'} there too, and not looked at." if others else ""
    if chosen == file:
        return file, f"{file} is graded.{beside}" if beside else ""
    return chosen, f"{chosen} is graded as {file}.{beside}"
