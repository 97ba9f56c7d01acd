"""The pages of the course, made of assignment.yaml and handout.md alone and written into one folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from grader.course import Course
from grader.errors import CourseError, UsageError
from grader.pictures.web import TEMPLATES as SHARED
from grader.records import Assignment
from grader.report.files import PUBLIC, write
from grader.site.markdown import Section, sections

TEMPLATES = Path(__file__).with_name("templates")
INDEX, MAP, STYLE = "index.html", "map.html", "site.css"
READING = re.compile(r"^(\d+ )?Further reading")
AUTOMATED = re.compile(r"What (the libraries|they) (automate|do)\b")
MARK = "<!-- a page of the course -->"  # by which a page of an earlier site is known


@dataclass(frozen=True, slots=True)
class Page:
    """An assignment and its handout."""

    assignment: Assignment
    name: str  # of the file
    title: Section
    sections: list[Section]
    reading: Section
    automated: Section


def write_site(course: Course, out: Path) -> list[Path]:
    """Write the course's pages into `out` and return them; pages there that an earlier site left are removed.

    Raises UsageError if `out` holds other people's files of that kind, CourseError for a handout without a section that the map needs or
    with a formula that can't be read, MachineError if the disk refuses.
    """
    ordered = sorted(course.assignments, key=lambda each: each.number)
    names = {each.number: f"{each.name}.html" for each in ordered}
    pages = [_page(course.root, each, names) for each in ordered]
    _make_room(out)
    for path, text in rendered(pages).items():
        write(out / path, text, PUBLIC)
    return [out / path for path in (INDEX, MAP, *names.values())]


def rendered(pages: list[Page]) -> dict[str, str]:
    """Every file of the site by its name."""
    surroundings = jinja2.Environment(
        loader=jinja2.FileSystemLoader([TEMPLATES, SHARED]), undefined=jinja2.StrictUndefined, autoescape=jinja2.select_autoescape(["j2"]),
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    common: dict[str, Any] = {"pages": pages, "mark": MARK, "index": INDEX, "map": MAP, "style": STYLE}

    def filled(template: str, **facts: Any) -> str:
        return surroundings.get_template(template).render(**common, **facts)

    files = {INDEX: filled("index.html.j2"), MAP: filled("map.html.j2"), STYLE: filled("site.css")}
    for number, page in enumerate(pages):
        before, after = (pages[n] if 0 <= n < len(pages) else None for n in (number - 1, number + 1))
        files[page.name] = filled("handout.html.j2", page=page, before=before, after=after)
    return files


def _page(root: Path, assignment: Assignment, names: dict[int, str]) -> Page:
    path = root / "assignments" / assignment.name / "handout.md"
    file = path.relative_to(root).as_posix()
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as missing:
        raise CourseError(f"{file} can't be read: {missing.strerror}") from missing
    own = {number: name for number, name in names.items() if number != assignment.number}
    title, *rest = sections(text, own, file)
    return Page(assignment, names[assignment.number], title, rest, _only(rest, READING, file), _only(rest, AUTOMATED, file))


def _only(found: list[Section], heading: re.Pattern[str], file: str) -> Section:
    fitting = [section for section in found if heading.search(section.title)]
    if len(fitting) != 1:
        raise CourseError(f"{file}: the map of the course needs one section headed like {heading.pattern!r}, and there are {len(fitting)}")
    return fitting[0]


def _make_room(out: Path) -> None:
    """A folder in which no page of an earlier site is left."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as refused:
        raise UsageError(f"{out} can't be made a folder for the pages ({refused.strerror}); name another with --out.") from refused
    for path in out.glob("*.html"):
        if MARK not in path.read_text(encoding="utf-8", errors="replace"):
            raise UsageError(f"{path} is no page of the course: name a folder with --out that holds nothing else.")
        path.unlink()
