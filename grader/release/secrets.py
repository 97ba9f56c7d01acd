"""What must not leave the repository, line by line: regions of solutions, hidden cases, wrong and unusual answers, seeds, expected values.

A line counts as it reads without spaces and quotes. Lines that students have by derivation (what `strip` leaves of a solution, given code,
public test files) are no secret, wherever else they stand.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from grader.course import Course
from grader.errors import CourseError
from grader.observe.seeds import SECRET_FILE, secret_of
from grader.regions import find, read_header
from grader.starter import build

ALLOWED = Path(__file__).with_name("allowed.yaml")
LINE_LEAST = 12  # characters that are left of a line; below that everybody writes the same
WORDS_LEAST = 2
HIDDEN_LEAST = 24  # of a hidden test file, whose short lines are what tests are made of
OVERLAY_LEAST = 44  # of a wrong or unusual answer, which is made of what every answer is made of
NAME_WORDS_LEAST = 3  # of a mutant's file name
DIGITS_LEAST = 5  # of a number that nobody writes by chance

IMPORT = re.compile(r"\s*(from [\w.]+ )?import ")  # tells nothing
UNSAID = re.compile(r"[\s\\\"'`>]+")  # what a copy may lose or gain: layout, quotes, escapes
NUMBER = re.compile(r"(?<![\w.])\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])")


@dataclass(frozen=True, slots=True)
class Secret:
    """One line, and where it is at home: what a finding says."""

    text: str  # reduced
    what: str


@dataclass(slots=True)
class Secrets:
    """All that the scan looks for."""

    lines: dict[str, Secret] = field(default_factory=dict)
    neighbours: dict[str, set[str]] = field(default_factory=dict)  # line -> the lines that follow it somewhere
    numbers: dict[str, Secret] = field(default_factory=dict)
    words: dict[str, Secret] = field(default_factory=dict)  # found wherever they stand: seeds' secret, names of wrong answers
    _beginnings: dict[int, dict[str, list[Secret]]] | None = None

    def add(self, lines: Iterable[str], what: str, open_lines: frozenset[str], least: int = LINE_LEAST) -> None:
        """Add a stretch of lines that stand together."""
        before = ""
        for line in lines:
            text = reduced(line)
            if len(text) < least or text in open_lines or IMPORT.match(line) or len(re.findall(r"\w+", line)) < WORDS_LEAST:
                before = before if not text else ""
                continue
            self.lines.setdefault(text, Secret(text, what))
            if before:
                self.neighbours.setdefault(before, set()).add(text)
            before = text

    def beginnings(self, length: int) -> dict[str, list[Secret]]:
        """The lines of at least `length` characters, by their first `length` ones."""
        if self._beginnings is None or length not in self._beginnings:
            found: dict[str, list[Secret]] = {}
            for secret in self.lines.values():
                if len(secret.text) >= length:
                    found.setdefault(secret.text[:length], []).append(secret)
            self._beginnings = {length: found}
        return self._beginnings[length]


def reduced(line: str) -> str:
    """A line without what a copy may lose or gain."""
    return UNSAID.sub("", line)


def collect(course: Course, left_out: dict[str, str], shipped: dict[str, str]) -> Secrets:
    """The secrets of `course`. `left_out`: what a release leaves out of law files, by path; `shipped`: what it takes of them.

    Raises CourseError when the course has no solutions.
    """
    root, secrets = course.root, Secrets()
    solutions = sorted(path for path in (root / "solutions").rglob("*.py") if path.is_file())
    if not solutions:
        raise CourseError(f"{root} has no solutions/: without them nobody can tell what must not leave.")
    public = frozenset(_public_lines(course, solutions)) | frozenset(_open_lines(root, shipped))
    for path in solutions:
        name = path.relative_to(root).as_posix()
        for region in find(path.read_text(encoding="utf-8"), name):
            secrets.add(region.body, f"a line of {name}, region {region.name}", public)
    tests = frozenset(map(reduced, _lines(sorted((root / "tests" / "public").glob("*.py"))))) | public
    for path in sorted((root / "tests" / "hidden").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        secrets.add(text.splitlines(), f"a line of {path.relative_to(root).as_posix()}", tests, HIDDEN_LEAST)
    known = tests | frozenset(reduced(line) for text in shipped.values() for line in text.splitlines())
    for name, text in left_out.items():
        secrets.add(text.splitlines(), f"what only hidden cases use of {name}", known)
    for room in ("mutants", "variants", "exploits"):
        for path in sorted((root / "tests" / room).rglob("*.py")):
            _add_overlay(secrets, path, path.relative_to(root).as_posix(), public)
    _add_numbers(secrets, course, left_out, shipped)
    _add_course_secret(secrets)
    _forget_what_is_open(secrets, course)
    return secrets


def _lines(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield from path.read_text(encoding="utf-8").splitlines()


def _public_lines(course: Course, solutions: Iterable[Path]) -> Iterator[str]:
    """What students have by derivation: solutions outside their regions, given code, stubs."""
    for path in solutions:
        source = path.read_text(encoding="utf-8")
        inside = {n for region in find(source, path.name) for n in range(region.first_line, region.last_line + 1)}
        yield from (reduced(line) for number, line in enumerate(source.splitlines(), 1) if number not in inside)
    yield from (reduced(line) for each in course.assignments for task in each.tasks for line in task.stub.splitlines())


def _open_lines(root: Path, shipped: dict[str, str]) -> Iterator[str]:
    """What the judge must say as well as the solution: lines of the files that allowed.yaml calls open, of laws only what ships."""
    for pattern in yaml.safe_load(ALLOWED.read_text(encoding="utf-8"))["open"]:
        for path in root.glob(pattern):
            name = path.relative_to(root).as_posix()
            text = shipped.get(name, "") if name.startswith("tests/") else path.read_text(encoding="utf-8")
            yield from map(reduced, text.splitlines())


def _add_overlay(secrets: Secrets, path: Path, name: str, public: frozenset[str]) -> None:
    source = path.read_text(encoding="utf-8")
    secrets.add(source.splitlines(), f"a line of {name}", public, OVERLAY_LEAST)
    with contextlib.suppress(CourseError):  # a program on its own has no header
        secrets.add([read_header(source, name).sentence], f"the sentence of {name}", public, HIDDEN_LEAST)
    if path.stem.count("_") >= NAME_WORDS_LEAST - 1 and path.stem != "__init__":
        secrets.words.setdefault(f"{path.stem}.py", Secret(f"{path.stem}.py", f"the name of {name}"))


def _add_numbers(secrets: Secrets, course: Course, left_out: dict[str, str], shipped: dict[str, str]) -> None:
    """Numbers of hidden cases and of what only they use: seeds, sizes, expected values."""
    root = course.root
    texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in (root / "tests" / "hidden").glob("*.py")}
    open_numbers = {number for text in shipped.values() for number in numbers(text)}
    open_numbers |= {number for line in _lines((root / "tests" / "public").glob("*.py")) for number in numbers(line)}
    open_numbers |= {number for content in build(course).values() for number in numbers(content.decode("utf-8"))}
    for name, text in (texts | left_out).items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and type(node.value) in (int, float):
                for number in numbers(repr(node.value)) - open_numbers:
                    secrets.numbers.setdefault(number, Secret(number, f"a number of {name}"))


def numbers(text: str) -> set[str]:
    """The numbers in a text that nobody writes by chance, in one spelling. Round ones are written by everybody."""
    found = (match.group().replace("_", "") for match in NUMBER.finditer(text))
    return {number for number in found if len(re.sub(r"e.*|\D", "", number).strip("0")) >= DIGITS_LEAST and not _is_round(number)}


def _is_round(number: str) -> bool:
    """A power of two, or one beside it."""
    return number.isdigit() and any(near & (near - 1) == 0 for near in (int(number), int(number) - 1, int(number) + 1))


def _forget_what_is_open(secrets: Secrets, course: Course) -> None:
    """A line that only breaks a starter's lines otherwise is no secret, nor is a table of words that a handout lists."""
    starters = "".join(reduced(line) for content in build(course).values() for line in content.decode("utf-8").splitlines())
    handouts = "".join(course.handout(each).read_text(encoding="utf-8") for each in course.assignments if course.handout(each).is_file())
    listed = set(re.findall(r"\w+", handouts))
    for text, secret in list(secrets.lines.items()):
        words = secret.text.strip(",[](){}").split(",")
        if text in starters or (len(words) > 1 and listed.issuperset(words)):
            del secrets.lines[text]


def _add_course_secret(secrets: Secrets) -> None:
    """The instructor's secret behind the seeds of hidden cases, if the environment names one, as it is and as it is written."""
    if os.environ.get(SECRET_FILE):
        raw = secret_of(hidden=True)
        for text in {raw.decode("latin-1"), raw.hex(), base64.b64encode(raw).decode().rstrip("=")}:
            secrets.words[text] = Secret(text, "the secret behind the hidden cases' seeds")
