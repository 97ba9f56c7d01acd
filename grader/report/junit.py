"""JUnit XML, which every CI system reads: a suite for each task, a test case for each case."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree as ET

from grader.records import CaseVerdict, Message, Report, TaskMark

UNSPEAKABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML 1.0 cannot say
CHILD_OF = {"failed": "failure", "not_judged": "skipped", "course_error": "error", "machine_error": "error"}


def to_xml(report: Report) -> str:
    """The student's form of `report` as JUnit XML."""
    root = ET.Element("testsuites", name="grader", time=f"{report.wall_s:.3f}")
    tasks = [task for assignment in report.assignments for task in assignment.tasks]
    root.extend(_suite(task) for task in tasks)
    _count(root, (case for task in tasks for law in task.laws for case in law.cases))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def message_text(message: Message) -> str:
    """A message's parts that say something, one a line."""
    parts = [(name, getattr(message, name)) for name in Message.__slots__]
    return "\n".join(f"{name}: {text}" for name, text in parts if text)


def _suite(task: TaskMark) -> ET.Element:
    suite = ET.Element("testsuite", name=_clean(task.id))
    _count(suite, (case for law in task.laws for case in law.cases))
    for law in task.laws:
        for number, case in enumerate(law.cases, 1):
            name = f"hidden case {number}: {case.id}" if case.hidden else case.id  # hidden ids say the kind only, and kinds repeat
            element = ET.SubElement(suite, "testcase", classname=_clean(law.id), name=_clean(name), time=f"{case.wall_s:.3f}")
            if case.outcome in CHILD_OF:
                child = ET.SubElement(element, CHILD_OF[case.outcome], message=_clean(case.message.seen if case.message else case.outcome))
                child.text = _clean("\n".join([law.claim, message_text(case.message) if case.message else ""]))
    return suite


def _count(element: ET.Element, cases: Iterable[CaseVerdict]) -> None:
    outcomes = [CHILD_OF.get(case.outcome, "") for case in cases]
    element.set("tests", str(len(outcomes)))
    for attribute, child in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(attribute, str(outcomes.count(child)))


def _clean(text: str) -> str:
    return UNSPEAKABLE.sub("\N{REPLACEMENT CHARACTER}", text)
