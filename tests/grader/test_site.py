"""The course's pages: every link leads somewhere, every formula is maths, nothing comes from elsewhere, and no hint is told."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from grader.course import Course, load
from grader.errors import CourseError, UsageError
from grader.site import write_site
from grader.site.markdown import mathml, sections
from grader.site.write import INDEX, MAP

ROOT = Path(__file__).resolve().parents[2]


class Reader(HTMLParser):
    """What a page names and where it leads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name in ("href", "src") and not (value or "").startswith("data:"):
                self.links.append(value or "")


@pytest.fixture(scope="module")
def course() -> Course:
    """This course."""
    return load(ROOT)


@pytest.fixture(scope="module")
def site(course: Course, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reader]:
    """Its pages, as they are read."""
    out = tmp_path_factory.mktemp("site")
    return {path.name: Reader(path.read_text(encoding="utf-8")) for path in write_site(course, out)}


def test_every_link_leads_to_a_place_of_the_site(course: Course, site: dict[str, Reader]) -> None:
    """A link is a page that was written, and its fragment an id there; no id stands twice on a page."""
    assert set(site) == {INDEX, MAP} | {f"{each.name}.html" for each in course.assignments}
    astray = []
    for name, page in site.items():
        assert len(page.ids) == len(set(page.ids)), name
        for link in page.links:
            target, _, fragment = link.partition("#")
            if (target != "site.css" and (target or name) not in site) or (fragment and fragment not in site[target or name].ids):
                astray.append(f"{name}: {link}")
    assert astray == [] and sum(len(page.links) for page in site.values()) > 200


def test_handouts_lead_to_each_other_by_number(course: Course, site: dict[str, Reader]) -> None:
    """The words "assignment 6" in a sentence are a link to it, and in code they are not."""
    assert "collectives.html" in site["data_parallel.html"].links
    text = sections("# 7\n\nsee assignment 6, not assignment 99 and not `assignment 6`", {6: "six.html"}, "x.md")[0].body
    assert text.count("<a ") == 1 and '<a href="six.html">assignment 6</a>' in text


def test_nothing_comes_from_elsewhere_and_nothing_runs(site: dict[str, Reader]) -> None:
    """No script, no address, no embedded page."""
    for name, page in site.items():
        assert not page.tags & {"script", "iframe", "img", "object", "embed"}, name
        assert [link for link in page.links if ":" in link or link.startswith("/")] == [], name


def test_every_formula_is_maths(course: Course, tmp_path: Path) -> None:
    """As many formulas as the handouts have between fences stand on the pages as MathML."""
    write_site(course, tmp_path)
    for each in course.assignments:
        handout = (ROOT / "assignments" / each.name / "handout.md").read_text(encoding="utf-8")
        page = (tmp_path / f"{each.name}.html").read_text(encoding="utf-8")
        assert page.count('display="block"') == handout.count("```math\n"), each.name
        assert "$" not in re.sub(r"<code>.*?</code>", "", page, flags=re.DOTALL), each.name


@pytest.mark.parametrize("latex", [r"\frac{1}{", r"\nosuchcommand{x}", r"\begin{aligned} a &= b \end{aligned}"])
def test_a_formula_that_cannot_be_shown_is_the_courses_mistake(latex: str) -> None:
    """It names the file and the formula, rather than showing LaTeX to a reader."""
    with pytest.raises(CourseError, match=r"x\.md.*"):
        mathml(latex, "x.md")


def test_a_page_has_the_laws_and_none_of_the_hints(course: Course, tmp_path: Path) -> None:
    """Claims are what is judged; hints come one at a time, when they are asked for."""
    write_site(course, tmp_path)
    for each in course.assignments:
        page = html.unescape((tmp_path / f"{each.name}.html").read_text(encoding="utf-8"))
        assert all(law.claim in page for law in each.laws())
        assert not any(hint in page for task in each.tasks for hint in task.hints)


def test_the_map_has_reading_and_libraries_for_every_topic(course: Course, site: dict[str, Reader], tmp_path: Path) -> None:
    """From each topic to its assignment, and to the section that says what the libraries automate."""
    links = site[MAP].links
    for each in course.assignments:
        assert f"{each.name}.html" in links and any(link.startswith(f"{each.name}.html#") for link in links)


def test_a_site_takes_away_its_own_old_pages_and_nobody_elses(course: Course, tmp_path: Path) -> None:
    """A page of an assignment that is gone would be found by a search; a page of another site is not ours to remove."""
    write_site(course, tmp_path)
    (tmp_path / INDEX).rename(tmp_path / "gone.html")
    write_site(course, tmp_path)
    assert not (tmp_path / "gone.html").exists()
    (tmp_path / "diary.html").write_text("<p>mine</p>")
    with pytest.raises(UsageError, match=r"diary\.html"):
        write_site(course, tmp_path)
    assert (tmp_path / "diary.html").exists()
