"""The instructor's upload to Gradescope, one zip for each assignment. It holds hidden cases: it is for the platform, never for students."""

from __future__ import annotations

from grader.course import Course
from grader.records import Assignment
from grader.release.archives import zip_of
from grader.release.bundle import Bundle
from grader.release.laws import reached
from grader.release.texts import render

SCRIPTS = ("setup.sh", "run_autograder")
ROOMS = (
    "assignments/{name}/assignment.yaml",
    "tests/probes/{name}.py",
    "tests/probes/{name}/*.py",
    "tests/public/test_{name}.py",
    "tests/hidden/test_{name}.py",
)
LEFT_HERE = ("notebooks/", ".github/", ".devcontainer/", "assignments/", "starter/", "tests/")


def autograder_of(course: Course, bundle: Bundle, assignment: Assignment) -> bytes:
    """The zip for one assignment: the grader, given code, its cases, and the two scripts that the platform runs."""
    root = course.root
    files = {path: content for path, content in bundle.files.items() if not path.startswith(LEFT_HERE)}
    files |= {path: content for path, content in bundle.files.items() if path.startswith("starter/lm/")}
    for pattern in ROOMS:
        for path in sorted(root.glob(pattern.format(name=assignment.name))):
            files[path.relative_to(root).as_posix()] = path.read_bytes()
    cases = [root / path for path in files if path.startswith(("tests/public/", "tests/hidden/"))]
    files |= {path: text.encode() for path, text in reached(root, cases)[0].items()}
    for script in SCRIPTS:
        files[script] = render(f"{script}.j2", assignment=assignment).encode()
    return zip_of(files, executable=SCRIPTS)
