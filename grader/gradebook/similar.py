"""Which submissions of a class are alike beyond what the course gives them: a list for a person to look into, and never a mark.

What the starter and the handout's code blocks contain is no likeness, nor what more than a tenth of the different texts have in common: a
stub leaves few ways, and what everybody writes is what the task asks for. Texts that are the same but for names, order and layout are one
text in that count, so that many copies don't hide each other. Students who handed in together are not compared.

Where the line is, by our own corpus (K and WINDOW of fingerprints.py; answers with 8 fingerprints of their own or more): of 319 wrong
answers that were written from handout and stub alone none is as close to the reference solution; of 481 that were made by editing it 336
are, and most of the others are a few lines long. A pair above the line says that one text comes from the other or both from a third, not
who wrote it.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from grader.course import Course
from grader.errors import UsageError
from grader.gradebook.book import Book
from grader.gradebook.cells import table
from grader.gradebook.fingerprints import Place, all_hashes, fingerprints
from grader.intake import intake
from grader.records import Assignment
from grader.report.files import PRIVATE, write

LEAST_SHARE = 0.5  # of the shorter one's own fingerprints
LEAST_SHARED = 10  # fingerprints: a dozen lines of code
COMMON_SHARE, COMMON_LEAST = 0.1, 5  # what more submissions than both of these have is nobody's
TABLE = "similar.csv"  # in the folder of a class
FENCE = re.compile(r"^```(?:python|py)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two submissions to one assignment that are alike."""

    assignment: str
    students: tuple[str, str]
    share: float  # of the shorter one's fingerprints that the other has, too
    num_shared: int
    lines: tuple[str, str]  # where, in each


@dataclass(slots=True)
class Likeness:
    """What came of comparing."""

    pairs: list[Pair] = field(default_factory=list)  # most alike first
    num_compared: int = 0
    left_out: list[str] = field(default_factory=list)  # who could not be compared, and why


def compare(
    course: Course, book: Book, submissions: Path, assignments: Sequence[Assignment], told: Callable[[str], None] = lambda step: None
) -> Likeness:
    """Compare all that was handed in, each assignment by itself. UsageError if `submissions` is no folder."""
    if not submissions.is_dir():
        raise UsageError(f"{submissions} is no folder: name the one that `grader batch` graded.")
    likeness = Likeness()
    for assignment in (each for each in assignments if each.name in book.assignments):
        told(assignment.title)
        given = _given(course, assignment)
        prints: dict[str, dict[int, Place]] = {}
        for students, path in _hand_ins(book, submissions):
            try:
                if not (texts := _texts(assignment, path)):
                    continue  # nothing was handed in for this one
                found = fingerprints(texts)
            except (UsageError, SyntaxError, ValueError, RecursionError, OSError) as unfit:
                likeness.left_out.append(f"{students}, {assignment.name}: {unfit}")
                continue
            prints[students] = {hashed: place for hashed, place in found.items() if hashed not in given}
        likeness.num_compared += len(prints)
        likeness.pairs += _pairs(assignment.name, prints)
    likeness.pairs.sort(key=lambda pair: (-pair.share, -pair.num_shared, pair.students))
    return likeness


def write_table(book: Book, likeness: Likeness) -> Path:
    """Write similar.csv, for its owner's eyes only. Raises MachineError."""
    head = ("assignment", "one", "other", "share", "fingerprints shared", "lines of one", "lines of the other")
    rows = [[pair.assignment, *pair.students, f"{pair.share:.2f}", str(pair.num_shared), *pair.lines] for pair in likeness.pairs]
    write(book.folder / TABLE, table([head, *rows]), PRIVATE)
    return book.folder / TABLE


def _hand_ins(book: Book, submissions: Path) -> Iterator[tuple[str, Path]]:
    """Who handed in (a group is one), and where it lies."""
    groups: dict[str, list[str]] = defaultdict(list)
    for student, row in book.students.items():
        if row.path:
            groups[row.path].append(student)
    return ((" and ".join(students), submissions / path) for path, students in groups.items())


def _texts(assignment: Assignment, path: Path) -> dict[str, str]:
    with tempfile.TemporaryDirectory(prefix="similar-") as folder:
        taken = intake(assignment, path, into=Path(folder) / "taken")
        return {file: (Path(taken.folder) / file).read_text(encoding="utf-8") for file in taken.files}


def _given(course: Course, assignment: Assignment) -> set[int]:
    """What everybody may have: the starter, and code in the handout."""
    handout = course.handout(assignment)
    sources = [path.read_text(encoding="utf-8") for file in assignment.files if (path := course.root / "starter" / file).is_file()]
    sources += FENCE.findall(handout.read_text(encoding="utf-8")) if handout.is_file() else []
    given: set[int] = set()
    for source in sources:
        try:
            given |= all_hashes(source)
        except SyntaxError:  # a block of a handout may be a sketch
            continue
    return given


def _pairs(assignment: str, prints: Mapping[str, Mapping[int, Place]]) -> Iterator[Pair]:
    """Every pair above the line. Of texts that are the same, each stands beside the first, which stands for them all before the others."""
    texts: dict[frozenset[int], list[str]] = defaultdict(list)
    for students, found in prints.items():
        if len(found) >= LEAST_SHARED:
            texts[frozenset(found)].append(students)
    for hashes, same in texts.items():
        yield from (_pair(assignment, prints, same[0], other, hashes, 1.0) for other in same[1:])
    num_having = Counter(hashed for hashes in texts for hashed in hashes)
    most = max(COMMON_LEAST, COMMON_SHARE * len(texts))
    owners: dict[int, list[frozenset[int]]] = defaultdict(list)
    own: Counter[frozenset[int]] = Counter()
    for hashes in texts:
        for hashed in (hashed for hashed in hashes if num_having[hashed] <= most):
            owners[hashed].append(hashes)
            own[hashes] += 1
    for (one, other), num_shared in Counter(pair for having in owners.values() for pair in combinations(having, 2)).items():
        share = num_shared / min(own[one], own[other])
        if share >= LEAST_SHARE and num_shared >= LEAST_SHARED:
            both = {hashed for hashed in one & other if hashed in owners}
            yield _pair(assignment, prints, texts[one][0], texts[other][0], both, share)


def _pair(
    assignment: str, prints: Mapping[str, Mapping[int, Place]], one: str, other: str, shared: Collection[int], share: float
) -> Pair:
    lines = (_lines([prints[one][hashed] for hashed in shared]), _lines([prints[other][hashed] for hashed in shared]))
    return Pair(assignment, (one, other), share, len(shared), lines)


def _lines(places: Sequence[Place]) -> str:
    """`rings.py:10-24, 40-52`: where fingerprints lie, joined where they touch."""
    said = []
    for file in sorted({place.file for place in places}):
        spans: list[list[int]] = []
        for first, last in sorted((place.first, place.last) for place in places if place.file == file):
            if spans and first <= spans[-1][1] + 1:
                spans[-1][1] = max(spans[-1][1], last)
            else:
                spans.append([first, last])
        said.append(f"{file}:" + ", ".join(f"{first}-{last}" for first, last in spans))
    return "; ".join(said)
