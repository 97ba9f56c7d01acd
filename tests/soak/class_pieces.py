"""A class of any size, drawn from what the course has: solutions, variants, mutants, exploits, starters, and files that are broken."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from grader.course import Course
from grader.records import Assignment
from grader.selfcheck.exploits import load_exploits, write_exploit
from grader.selfcheck.overlays import load_overlay, overlay_paths
from tests.grader.batch.downloads import Files, Student, zipped

SHARES = {"mutant": 40, "variant": 15, "solution": 12, "starter": 12, "exploit": 6, "broken": 15}  # of a hundred
NAMES = ("Ada Lovelace", "Émilie du Châtelet", "李 小龍", "O'Brien, Pat", "Jean-Luc 🚀", "=SUM(A1)", "Ørsted", "van der Berg")
BROKEN: dict[str, Callable[[Files], Files]] = {
    "half an archive": lambda files: {"work.zip": zipped(files)[:100]},
    "not Python": lambda files: dict.fromkeys(files, b"def ring(:\n"),
    "nothing of it": lambda files: {"notes.txt": b"I could not finish."},
    "bytes": lambda files: dict.fromkeys(files, bytes(range(256)) * 40),
    "one file only": lambda files: dict([next(iter(files.items()))]),
    "too large": lambda files: dict.fromkeys(files, b"#" * 2**21),
    "a PDF": lambda files: {"answer.py": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"},
    "endless": lambda files: dict.fromkeys(files, b"while True:\n    pass\n"),
}  # fmt: skip


def draw_class(course: Course, assignments: Sequence[Assignment], num_students: int, seed: int) -> dict[Student, Files]:
    """The same class for the same seed. About half of the hand-ins bear their author's number in a comment: nobody else's are equal."""
    dice = random.Random(seed)
    pieces = {each.name: _pieces(course, each) for each in assignments}
    handed: dict[Student, Files] = {}
    for number in range(num_students):
        student = Student(f"{number:05}", f"{NAMES[number % len(NAMES)]} {number}", f"user-{number}", 40000 + number)
        files: dict[str, bytes] = {}
        for each in assignments:
            kind = dice.choices(list(SHARES), list(SHARES.values()))[0]
            files |= dice.choice(pieces[each.name].get(kind) or pieces[each.name]["solution"])
        if dice.random() < 0.5:
            files = {name: text + f"\n# {student.id}\n".encode() for name, text in files.items()}
        if dice.random() < SHARES["broken"] / 100:
            handed[student] = dice.choice(list(BROKEN.values()))(files)
        else:
            handed[student] = {"my work.zip": zipped(files, "my work")} if dice.random() < 0.25 else files
    return handed


def _pieces(course: Course, assignment: Assignment) -> dict[str, list[Files]]:
    """Ways to fill the assignment's files, by kind."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)

        def overlays(room: str) -> list[Files]:
            loaded = [load_overlay(course, assignment, path) for path in overlay_paths(course, room, assignment)]
            return [_read(assignment, each.write(course, assignment, place / each.path)) for each in loaded]

        cheats = [each for each in load_exploits(course) if each.assignment == assignment.name and not each.beside]
        return {
            "solution": [_read(assignment, course.root / "solutions")],
            "starter": [_read(assignment, course.root / "starter")],
            "mutant": overlays("mutants"),
            "variant": overlays("variants"),
            "exploit": [_read(assignment, write_exploit(course, each, place / "exploits" / each.name)) for each in cheats],
        }


def _read(assignment: Assignment, folder: Path) -> Files:
    return {file: (folder / file).read_bytes() for file in assignment.files if (folder / file).is_file()}
