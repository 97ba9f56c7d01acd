"""report.html as a browser shows it: made of real runs, from file://, at every width, by day, by night, on paper and without a mouse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grader.regions import compose
from tests.pages.browser import WEAK_TEXTS, Browser

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / ".grade" / "pages"  # to be looked at: a test sees no ugliness
SCREENS = ((360, "light"), (360, "dark"), (1440, "light"), (1440, "dark"), (3840, "light"))
STANDS_STILL = """'''Receives and never sends.'''
# region solution exchange
dist.recv(incoming, group=group, group_src=receive_from)
# endregion
"""


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a real grading: a ring that stands still, data parallelism without overlap, an attention that is right."""
    work = tmp_path_factory.mktemp("work")
    solutions = ROOT / "solutions"
    overlap = ROOT / "tests/mutants/data_parallel/sends_synchronously_from_the_hook.py"
    ring = compose((solutions / "collectives.py").read_text(), STANDS_STILL, "collectives.py", "stands still")
    (work / "collectives.py").write_text(ring)
    source = (solutions / "data_parallel.py").read_text()
    (work / "data_parallel.py").write_text(compose(source, overlap.read_text(), "data_parallel.py", overlap.name))
    command = [sys.executable, "-m", "grader.cli", "grade", "-a", "collectives", "-a", "data_parallel", "--submission", str(work)]
    words = "never_deadlocks or reduce_scatter_leaves or time_of_overlap or works_for_any_size or inside_backward"
    subprocess.run([*command, "--out", str(work / "run"), "-k", words], cwd=ROOT, check=False, capture_output=True)
    return work / "run" / "report.html"


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_a_page_fits_any_screen_and_complains_of_nothing(browser: Browser, page: Path, width: int, scheme: str) -> None:
    """No sideways scrolling of the whole, no message on the console, no request but for the page itself; a picture is kept."""
    browser.open(page, width, dark=scheme == "dark")
    assert browser.value("document.documentElement.scrollWidth") <= width
    blocks = "[...document.querySelectorAll('article, table.marks, dl')]"
    assert browser.value(f"{blocks}.every(e => e.getBoundingClientRect().right <= innerWidth + 1)")
    assert browser.complaints == [] and set(browser.requests) == {page.resolve().as_uri()}
    PICTURES.mkdir(parents=True, exist_ok=True)
    browser.screenshot(PICTURES / f"{width}-{scheme}.png")


def test_real_runs_have_their_pictures(browser: Browser, page: Path) -> None:
    """A stand-off with its divergence and arrows, and a timeline with forward, backward and collectives, every bar inside its drawing."""
    browser.open(page, 1440)
    assert browser.value("document.querySelectorAll('.divergence').length") >= 1
    assert browser.value("document.querySelectorAll('.waits-for .arrow').length") >= 2
    assert browser.value("['compute0', 'compute1', 'collective', 'waits'].every(c => document.querySelector('.timeline rect.' + c))")
    holds = "(s, r) => r.x >= 0 && r.y >= 0 && r.x + r.width <= s.width && r.y + r.height <= s.height"
    boxes = "[...s.querySelectorAll('rect')].every(r => holds(s.viewBox.baseVal, r.getBBox()))"
    inside = f"(holds => [...document.querySelectorAll('.timeline')].every(s => {boxes}))({holds})"
    assert browser.value(inside)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_stands_out_from_its_ground(browser: Browser, page: Path, dark: bool) -> None:
    """Every text has a contrast of at least 4.5 to 1 with what is behind it (WCAG 2, AA)."""
    browser.open(page, 1440, dark=dark)
    assert browser.value(WEAK_TEXTS) == []


def test_everything_is_reached_with_the_keyboard(browser: Browser, page: Path) -> None:
    """Tab goes to the marks first, then through all links, folds and whatever scrolls; each has a name."""
    browser.open(page, 1440)
    reached = []
    for _ in range(browser.value("document.querySelectorAll('a, summary, [tabindex]').length")):
        browser.press_tab()
        reached.append(browser.value("(e => e.getAttribute('aria-label') || e.textContent.trim().slice(0, 40))(document.activeElement)"))
    assert reached[0] == "Skip to the marks" and all(reached)
    assert any(name.startswith("As it ran") for name in reached) and any(name.startswith("Calls of every rank") for name in reached)


def test_a_screen_reader_hears_every_picture(browser: Browser, page: Path) -> None:
    """In the accessibility tree each picture is an image with a name."""
    browser.open(page, 1440)
    nodes = browser.ask("Accessibility.getFullAXTree")["nodes"]
    images = [node for node in nodes if node.get("role", {}).get("value") in ("image", "img") and not node["ignored"]]
    drawn = browser.value("[...document.querySelectorAll('svg[role=img]')].filter(e => e.getBoundingClientRect().width).length")
    assert len(images) >= drawn > 0 and all(node["name"]["value"].strip() for node in images)


def test_paper_shows_what_the_screen_folds(browser: Browser, page: Path) -> None:
    """Printed, the page is light, folds are open, and nothing is cut off at the side."""
    browser.open(page, 794, dark=True, paper=True)
    assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.value("[...document.querySelectorAll('details tbody td')].every(e => e.getBoundingClientRect().height > 0)")
    assert browser.value("document.documentElement.scrollWidth") <= 794
    browser.screenshot(PICTURES / "paper.png")
