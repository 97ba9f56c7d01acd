"""The course's pages as a browser shows them, from file://, narrow and wide, by day and by night, without a mouse and on paper."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.course import load
from grader.site import write_site
from tests.pages.browser import WEAK_TEXTS, Browser
from tests.pages.test_pages import PICTURES, ROOT

SHOWN = ("index", "map", "flash_attention", "data_parallel")  # of which screenshots are kept


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The site of this course."""
    return write_site(load(ROOT), tmp_path_factory.mktemp("site"))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_every_page_of_the_course_fits_and_complains_of_nothing(browser: Browser, pages: list[Path], width: int, dark: bool) -> None:
    """No sideways scrolling of a whole page, no word on the console, no request but for page and stylesheet, no weak text."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for page in pages:
        browser.complaints.clear()
        browser.requests.clear()
        browser.open(page, width, dark=dark)
        assert browser.value("document.documentElement.scrollWidth") <= width, page.name
        assert browser.complaints == [] and set(browser.requests) == {page.as_uri(), page.with_name("site.css").as_uri()}, page.name
        assert browser.value(WEAK_TEXTS) == [], page.name
        if page.stem in SHOWN:
            browser.screenshot(PICTURES / f"site-{page.stem}-{width}-{'dark' if dark else 'light'}.png")


def test_formulas_are_drawn(browser: Browser, pages: list[Path]) -> None:
    """A fraction has a numerator above its denominator, without any script or font of ours."""
    browser.open(next(page for page in pages if page.stem == "pipeline_parallel"), 1280)
    boxes = "[...document.querySelectorAll('mfrac')].map(f => [...f.children].map(c => c.getBoundingClientRect()))"
    assert browser.value(f"{boxes}.length") >= 3 and browser.value(f"{boxes}.every(([above, below]) => above.bottom <= below.top + 2)")


def test_a_handout_is_read_with_the_keyboard(browser: Browser, pages: list[Path]) -> None:
    """Tab goes to the text first; whatever scrolls sideways can be reached, and says what it is or shows it."""
    browser.open(next(page for page in pages if page.stem == "data_parallel"), 360)
    browser.press_tab()
    assert browser.value("document.activeElement.textContent") == "Skip to the text"
    stuck = "e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== 'visible' && e.tabIndex < 0"
    assert browser.value(f"[...document.querySelectorAll('body *')].filter({stuck}).map(e => e.outerHTML.slice(0, 80))") == []


def test_a_handout_can_be_printed(browser: Browser, pages: list[Path]) -> None:
    """On paper it is light and nothing is cut off at the side."""
    for page in pages:
        browser.open(page, 794, dark=True, paper=True)
        assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert browser.value("document.documentElement.scrollWidth") <= 794, page.name
