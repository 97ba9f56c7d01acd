"""A collected test as a case of a law: which assignment, which law, public or hidden, and what a student may know of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from grader.errors import CourseError
from grader.judge.ports import Observe
from grader.records import Assignment, CaseOutcome, CaseVerdict, Law, Message, make_grade

KEYWORD = re.compile(r"[\w:+\-.\[\]/]+")  # what pytest's -k takes as one word


@dataclass(slots=True)
class Case:
    """A test with one set of parameters, on its way to a verdict."""

    law: Law
    assignment: str
    name: str  # the test's name and parameters
    node: str  # pytest's id of it
    hidden: bool
    parameters: str  # in words; "" for a test without parameters
    observe: Observe | None = None  # set when the test asks for it
    verdict: CaseVerdict | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The observations that the case has looked at."""
        return tuple(self.observe.keys) if self.observe else ()

    @property
    def kind(self) -> str:
        """The kind of case in words. Of a hidden case nothing but what the test itself chose to tell."""
        told = self.observe.kind if self.observe else ""
        return told or ("not told" if self.hidden else self.parameters or "the only case")

    @property
    def id(self) -> str:
        """What reports call the case."""
        return self.kind if self.hidden else self.name

    def becomes(self, outcome: CaseOutcome, message: Message | None = None, staff: str = "") -> CaseVerdict:
        """The case with an outcome, as it travels on."""
        return CaseVerdict(self.law.id, self.id, self.kind, self.hidden, outcome, message, staff, self.keys)

    def with_commands(self, message: Message, origin: str) -> Message:
        """`message` with the commands that judge this case alone and that step through it; a hidden case has neither."""
        if self.hidden:
            return message
        word = self.name if KEYWORD.fullmatch(self.name) else self.name.partition("[")[0]
        rerun = f"{make_grade(self.assignment, origin)} K={shlex.quote(word)}"
        return replace(message, rerun=rerun, debug=message.debug or (self.observe.how_to().debug if self.observe and self.keys else ""))


@dataclass(frozen=True, slots=True)
class Laws:
    """The laws that tests may name, by full id."""

    by_id: dict[str, Law]

    @classmethod
    def of(cls, assignments: Sequence[Assignment]) -> Laws:
        """All laws of `assignments`."""
        return cls({law.id: law for each in assignments for law in each.laws()})

    def case_of(self, item: pytest.Item) -> Case:
        """The case that `item` is. Raises CourseError if it bears no law mark, several, or one that names no law."""
        name = assignment_of(item.path)
        marks = list(item.iter_markers("law"))
        if len(marks) != 1 or len(marks[0].args) != 1 or not isinstance(marks[0].args[0], str):
            seen = f"{len(marks)} law marks, or one without a name" if marks else "no law mark"
            raise CourseError(f'{item.nodeid} has {seen}; expected exactly one, such as @pytest.mark.law("<task>.<claim>")')
        law = self.by_id.get(f"{name}.{marks[0].args[0]}")
        if law is None:
            known = ", ".join(each.removeprefix(f"{name}.") for each in self.by_id if each.startswith(f"{name}."))
            raise CourseError(f"{item.nodeid} is marked with {marks[0].args[0]!r}, no law of {name}; it has: {known or 'none'}")
        return Case(law, name, item.name, item.nodeid, is_hidden(item.path), _parameters_in_words(item))


def assignment_of(path: Path) -> str:
    """The name of the assignment that a test file judges: tests/public/test_<name>.py."""
    return path.stem.removeprefix("test_")


def is_hidden(path: Path) -> bool:
    """Whether a test file never ships."""
    return path.parent.name == "hidden"


def _parameters_in_words(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return ""
    if all(isinstance(value, str | int | float | None) for value in callspec.params.values()):
        return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in callspec.params.items())
    return str(callspec.id)
