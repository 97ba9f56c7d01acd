"""assignment.yaml → records: the course as its files say it, read strictly, so that a typing error is a sentence and not a wrong mark."""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from grader.errors import CourseError, UsageError
from grader.policy import EVERYWHERE
from grader.race_text import RaceText, find_wrong, to_race
from grader.records import Assignment, Evidence, Law, Rule, Task
from grader.yaml_file import YamlFile

SPEC_NAME = "assignment.yaml"
LIBRARIES = frozenset({"torch", "triton", "numpy", "ml_dtypes", "lm", "grader", "pytest"})

Word = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]*$")]
Dashed = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9-]*$")]
Need = Annotated[str, msgspec.Meta(pattern=r"^([a-z][a-z0-9_]*\.)?[a-z][a-z0-9_]*$")]
FileName = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]*\.py$")]
Sentence = Annotated[str, msgspec.Meta(pattern=r"\S")]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Flavour = Literal["torch", "interpreter", "compiler"]
Level = Literal["A", "B", "C", "D"]


class _LawText(msgspec.Struct, forbid_unknown_fields=True):
    id: Word
    claim: Sentence
    points: Positive
    evidence: Evidence
    needs: list[Need] = []
    hints: list[Sentence] = []


class _TaskText(msgspec.Struct, forbid_unknown_fields=True):
    id: Word
    title: Sentence
    regions: Annotated[list[Word], msgspec.Meta(min_length=1)]
    stub: Sentence
    laws: Annotated[list[_LawText], msgspec.Meta(min_length=1)]
    hints: list[Sentence] = []


class _RuleText(msgspec.Struct, forbid_unknown_fields=True):
    id: Dashed
    names: Annotated[list[Sentence], msgspec.Meta(min_length=1)]
    reason: Sentence


class _AssignmentText(msgspec.Struct, forbid_unknown_fields=True):
    number: Positive
    title: Sentence
    files: Annotated[list[FileName], msgspec.Meta(min_length=1, max_length=4)]
    tasks: Annotated[list[_TaskText], msgspec.Meta(min_length=1)]
    forbidden: list[_RuleText] = []
    permitted: list[_RuleText] = []
    flavours: list[Flavour] = []
    host_only: str = ""
    records_hints: bool = False
    isolation: Level = "D"
    races: list[RaceText] = []


@dataclass(frozen=True, slots=True)
class Course:
    """A course folder and its assignments, ordered by number."""

    root: Path
    assignments: tuple[Assignment, ...]

    def handout(self, assignment: Assignment) -> Path:
        """The handout of `assignment`; it may not exist yet."""
        return self.root / "assignments" / assignment.name / "handout.md"


def _released_sums(root: Path) -> dict[str, str]:
    """The SHA-256 of every file of what students got, by its path; none in the instructor's repository."""
    try:
        return dict(json.loads((root / "release.json").read_text(encoding="utf-8"))["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def is_untouched(root: Path, assignment: Assignment, sums: Mapping[str, str]) -> bool:
    """Whether the files of `assignment`, by their hashes, are those in which every stub stands: then no law of it can pass.

    Known in what students get only. Where the course is proved, and where classes are graded, starters are run like anything else.
    """
    released = _released_sums(root)
    return all(file in sums and sums[file] == released.get(f"starter/{file}") for file in assignment.files)


def edited_given(root: Path) -> tuple[str, ...]:
    """In what students get: a note if the given code that grading uses is not what was released."""
    sums = _released_sums(root)
    given = sorted(path for path in sums if path.startswith("starter/lm/"))
    contents = {path: (root / path).read_bytes().replace(b"\r\n", b"\n") if (root / path).is_file() else b"" for path in given}
    edited = [path for path in given if hashlib.sha256(contents[path]).hexdigest() != sums[path]]
    return (f"{' and '.join(edited)} was edited: what counts is graded with the course's own copy.",) if edited else ()


def probe_files(root: Path, assignment: str) -> tuple[Path, ...]:
    """What runs beside a submission: tests/probes/<name>.py, or a package of that name; the file whose functions are called comes first."""
    room = root / "tests" / "probes"
    package = sorted((room / assignment).glob("*.py"), key=lambda path: (path.name != "__init__.py", path.name))
    return tuple(package) or (room / f"{assignment}.py",)


def find_root(start: Path | None = None) -> Path:
    """The nearest folder, from `start` (default: here) upwards, that holds an `assignments` folder with a specification.

    Raises UsageError when there is none.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if any(folder.glob(f"assignments/*/{SPEC_NAME}")):
            return folder
    raise UsageError(
        f"{here} is not inside a course: neither it nor a folder above it holds assignments/<name>/{SPEC_NAME}. "
        "Run this from the folder that you cloned."
    )


def load(root: Path) -> Course:
    """Read every assignment under `root`; CourseError names the file, the line and the path of the first thing that is wrong."""
    folders = sorted(entry for entry in (root / "assignments").iterdir() if entry.is_dir() and not entry.name.startswith((".", "__")))
    assignments = sorted((load_assignment(folder) for folder in folders), key=lambda assignment: assignment.number)
    for before, after in itertools.pairwise(assignments):
        if before.number == after.number:
            raise CourseError(f"assignments/{after.name}/{SPEC_NAME}: $.number is {after.number}, which {before.name} has already.")
    owners: dict[str, str] = {}
    for assignment in assignments:
        for file in assignment.files:
            if (owner := owners.setdefault(file, assignment.name)) != assignment.name:
                raise CourseError(f"assignments/{assignment.name}/{SPEC_NAME}: $.files names {file}, which belongs to {owner} already.")
    return Course(root, tuple(assignments))


def load_assignment(folder: Path) -> Assignment:
    """Read `folder`/assignment.yaml; the folder's name is the assignment's. Raises CourseError."""
    path = folder / SPEC_NAME
    if not re.fullmatch(r"[a-z][a-z0-9_]*", folder.name):
        raise CourseError(f"{folder}: an assignment's folder is named in lower case with underscores, as its Python file would be.")
    page = YamlFile(path, CourseError, missing="every folder in assignments/ has one.")
    text = page.convert(_AssignmentText)
    _check_names(text, page)
    return _assignment(folder.name, text, page)


def select(course: Course, wanted: Sequence[str]) -> tuple[Assignment, ...]:
    """Assignments by name or number, in the course's order; all of them when `wanted` is empty. UsageError with close matches."""
    by_key = {key: assignment for assignment in course.assignments for key in (assignment.name, str(assignment.number))}
    chosen = set()
    for word in wanted:
        key = word.strip().lower().replace("-", "_").lstrip("0")
        if key not in by_key:
            raise UsageError(f"There is no assignment {word!r}. {_nearest(key, course.assignments)}")
        chosen.add(by_key[key].name)
    return tuple(assignment for assignment in course.assignments if not wanted or assignment.name in chosen)


def _nearest(key: str, assignments: Iterable[Assignment]) -> str:
    names = {assignment.name: f"{assignment.name} (number {assignment.number})" for assignment in assignments}
    close = [name for name in names if key and key in name] or difflib.get_close_matches(key, names, n=3, cutoff=0.5)
    return f"Did you mean {' or '.join(names[name] for name in close)}?" if close else f"There are: {', '.join(names.values())}."


# --- what the types cannot say ---------------------------------------------------------------------------------------
def _check_names(text: _AssignmentText, page: YamlFile) -> None:
    _refuse_twice(((f"$.files[{i}]", file) for i, file in enumerate(text.files)), page)
    for i, file in enumerate(text.files):
        if (module := file.removesuffix(".py")) in sys.stdlib_module_names | LIBRARIES:
            raise page.error(f"$.files[{i}]", f"{file} would hide the library {module}; expected another name")
    _refuse_twice(((f"$.tasks[{i}].id", task.id) for i, task in enumerate(text.tasks)), page)
    _refuse_twice(((f"$.tasks[{i}].regions[{j}]", name) for i, t in enumerate(text.tasks) for j, name in enumerate(t.regions)), page)
    for i, task in enumerate(text.tasks):
        _refuse_twice(((f"$.tasks[{i}].laws[{j}].id", law.id) for j, law in enumerate(task.laws)), page)
    _refuse_twice(((f"$.forbidden[{i}].id", rule.id) for i, rule in enumerate(text.forbidden)), page)
    common = [rule.id for rule in EVERYWHERE]
    for i, rule in enumerate(text.forbidden):
        if rule.id in common:
            raise page.error(f"$.forbidden[{i}].id", f"{rule.id!r} is a rule of the whole course; expected a name of its own")
    known = [*common, *(rule.id for rule in text.forbidden)]
    for i, exception in enumerate(text.permitted):
        if exception.id not in known:
            raise page.error(f"$.permitted[{i}].id", f"no rule is called {exception.id!r}; there are {', '.join(known)}")


def _refuse_twice(named: Iterable[tuple[str, str]], page: YamlFile) -> None:
    first: dict[str, str] = {}
    for where, name in named:
        if name in first:
            raise page.error(where, f"{name!r} stands at `{first[name]}` already; expected a name of its own")
        first[name] = where


def _assignment(name: str, text: _AssignmentText, page: YamlFile) -> Assignment:
    tasks = tuple(
        Task(f"{name}.{task.id}", task.title, _laws(name, task), tuple(task.regions), task.stub.rstrip("\n"), tuple(task.hints))
        for task in text.tasks
    )
    rules, permitted = (tuple(Rule(it.id, tuple(it.names), it.reason) for it in texts) for texts in (text.forbidden, text.permitted))
    _check_needs(tasks, page)
    flavours = tuple(text.flavours or ["torch"])
    forbidden = (*rules, *EVERYWHERE)
    if (wrong := find_wrong(text.races, {law.id.partition(".")[2] for task in tasks for law in task.laws})) is not None:
        raise page.error(*wrong)
    races = tuple(to_race(name, race) for race in text.races)
    return Assignment(name, text.number, text.title, tuple(text.files), tasks, forbidden, flavours, text.host_only, text.records_hints,
                      permitted, text.isolation, races)  # fmt: skip


def _laws(assignment: str, task: _TaskText) -> tuple[Law, ...]:
    def full(need: str) -> str:
        return f"{assignment}.{need}" if "." in need else f"{assignment}.{task.id}.{need}"

    return tuple(
        Law(f"{assignment}.{task.id}.{law.id}", law.claim, law.points, law.evidence, tuple(map(full, law.needs)), tuple(law.hints))
        for law in task.laws
    )


def _check_needs(tasks: Sequence[Task], page: YamlFile) -> None:
    """A need names a law of this assignment, and following needs never comes back to where it began."""
    laws = {law.id: law for task in tasks for law in task.laws}
    for i, task in enumerate(tasks):
        for j, law in enumerate(task.laws):
            for k, need in enumerate(law.needs):
                where = f"$.tasks[{i}].laws[{j}].needs[{k}]"
                if need not in laws:
                    close = difflib.get_close_matches(need, laws, n=1, cutoff=0.0)[0].partition(".")[2]
                    said = need.partition(".")[2]
                    raise page.error(where, f"no law is called {said!r}; expected <claim> or <task>.<claim>, such as {close!r}")
                if law.id in _reached(need, laws):
                    raise page.error(where, f"{law.id} would need itself, by way of {need}; expected needs without a circle")


def _reached(law_id: str, laws: dict[str, Law]) -> set[str]:
    reached, ahead = set(), [law_id]
    while ahead:
        if (here := ahead.pop()) in laws and here not in reached:
            reached.add(here)
            ahead.extend(laws[here].needs)
    return reached
