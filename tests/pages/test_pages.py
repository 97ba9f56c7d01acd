"""report.html as a browser shows it: made of real runs, from file://, at every width, by day, by night, on paper and without a mouse."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from grader.course import load, select
from grader.pictures.studies import STUDIES
from grader.regions import compose
from tests.pages.browser import WEAK_TEXTS, Browser

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / ".grade" / "pages"  # to be looked at: a test sees no ugliness
SCREENS = ((360, "light"), (360, "dark"), (1440, "light"), (1440, "dark"), (3840, "light"))
OPEN_ALL = "document.querySelectorAll('details').forEach(e => e.open = true)"
NOT_ASKED = {"GELU under the roofline", "Cross-entropy under the roofline"}  # RMSNorm's is of the same kind
STANDS_STILL = """'''Receives and never sends.'''
# region solution exchange
dist.recv(incoming, group=group, group_src=receive_from)
# endregion
"""


LOSES_A_CORNER = """

_whole = tiled_attention


def tiled_attention(*arguments, **options):
    o, lse = _whole(*arguments, **options)
    o[:, :, -9:, :8] = 0
    return o, lse
"""
RIGHT = ("pipeline_parallel", "context_parallel", "fused_kernels", "memory_accounting", "recomputation", "sharded_data_parallel")
WORDS = (
    "never_deadlocks", "reduce_scatter_leaves", "time_of_overlap", "works_for_any_size", "inside_backward", "published_bubble",
    "time_of_its_schedule", "go_round_once", "norm_reads_each", "moves_the_bytes_of_its_blocks", "tiled_output", "follow_the_precision",
    "recomputation_keeps", "follows_the_square_root", "holds_at_scale",
)  # fmt: skip


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a real grading: a ring that stands still, no overlap, a corner of an output that is lost, and much that is right."""
    work = tmp_path_factory.mktemp("work")
    solutions = ROOT / "solutions"
    ring = compose((solutions / "collectives.py").read_text(), STANDS_STILL, "collectives.py", "stands still")
    (work / "collectives.py").write_text(ring)
    overlap = ROOT / "tests/mutants/data_parallel/sends_synchronously_from_the_hook.py"
    source = (solutions / "data_parallel.py").read_text()
    (work / "data_parallel.py").write_text(compose(source, overlap.read_text(), "data_parallel.py", overlap.name))
    (work / "flash_attention.py").write_text((solutions / "flash_attention.py").read_text() + LOSES_A_CORNER)
    chosen = select(load(ROOT), ["collectives", "data_parallel", "flash_attention", *RIGHT])
    for file in (file for each in chosen for file in each.files if not (work / file).exists()):
        shutil.copy(solutions / file, work / file)
    command = [sys.executable, "-m", "grader.cli", "grade", "--submission", str(work), "--out", str(work / "run"), "-k", " or ".join(WORDS)]
    names = [word for each in chosen for word in ("-a", each.name)]
    subprocess.run([*command, *names], cwd=ROOT, check=False, capture_output=True)
    return work / "run" / "report.html"


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_a_page_fits_any_screen_and_complains_of_nothing(browser: Browser, page: Path, width: int, scheme: str) -> None:
    """No sideways scrolling of the whole, no message on the console, no request but for the page itself; a picture is kept."""
    browser.complaints.clear()
    browser.requests.clear()
    browser.open(page, width, dark=scheme == "dark")
    browser.value(OPEN_ALL)
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
    inside = f"(holds => [...document.querySelectorAll('.timeline, .cells')].every(s => {boxes}))({holds})"
    browser.value(OPEN_ALL)
    assert browser.value(inside)


def test_every_picture_that_teaches_is_drawn_from_real_runs(browser: Browser, page: Path) -> None:
    """Buckets, schedules, rings, bytes, memory, the roofline and a map of a tensor; the page stays small."""
    browser.open(page, 1440)
    browser.value(OPEN_ALL)
    headings = set(browser.value("[...document.querySelectorAll('.study > summary b')].map(e => e.textContent)"))
    missing = {study.heading for study in STUDIES} - headings
    assert missing == {"The ring, round by round", "The chain, round by round", "Recursive doubling, round by round", *NOT_ASKED}
    assert browser.value("document.querySelectorAll('.steps .message').length") >= 8
    assert browser.value("document.querySelectorAll('.cells .differs').length") >= 1
    for picture in ("'.step svg'", "'.cells'", "'.roof'"):
        assert browser.value(f"[...document.querySelectorAll({picture})].every(e => e.getBoundingClientRect().width > 60)"), picture
    outside = "[...document.querySelectorAll('.study svg text')].filter(e => e.getBBox().x < 0 || e.getBBox().x + e.getBBox().width > "
    assert browser.value(f"{outside} e.ownerSVGElement.viewBox.baseVal.width + 1).map(e => e.textContent)") == []
    assert page.stat().st_size < 1_000_000


def test_names_of_rows_stop_before_their_bars(browser: Browser, page: Path) -> None:
    """A name that ran into the drawing could not be read."""
    browser.open(page, 1440)
    browser.value(OPEN_ALL)
    starts = "Math.min(...[...e.ownerSVGElement.querySelectorAll('g rect')].map(r => r.getBBox().x))"
    over = f"[...document.querySelectorAll('.timeline .rank')].filter(e => e.getBBox().x + e.getBBox().width > {starts})"
    assert browser.value(f"{over}.map(e => e.textContent)") == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_stands_out_from_its_ground(browser: Browser, page: Path, dark: bool) -> None:
    """Every text has a contrast of at least 4.5 to 1 with what is behind it (WCAG 2, AA)."""
    browser.open(page, 1440, dark=dark)
    browser.value(OPEN_ALL)
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
    browser.value(OPEN_ALL)
    nodes = browser.ask("Accessibility.getFullAXTree")["nodes"]
    images = [node for node in nodes if node.get("role", {}).get("value") in ("image", "img") and not node["ignored"]]
    drawn = browser.value("[...document.querySelectorAll('[role=img]')].filter(e => e.getBoundingClientRect().width).length")
    assert len(images) >= drawn > 0 and all(node["name"]["value"].strip() for node in images)


def test_paper_shows_what_the_screen_folds(browser: Browser, page: Path) -> None:
    """Printed, the page is light, folds are open, and nothing is cut off at the side."""
    browser.open(page, 794, dark=True, paper=True)
    assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.value("[...document.querySelectorAll('details tbody td')].every(e => e.getBoundingClientRect().height > 0)")
    assert browser.value("document.documentElement.scrollWidth") <= 794
    browser.screenshot(PICTURES / "paper.png")
