"""A page that is cut off or paused says so without a jump, and in forced colours its marks are seen."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open
from tests.browser.test_pages_in_chromium import live
from tests.integration.web import cast

pytestmark = pytest.mark.browser

COLOURS = """(e) => {
  const mark = getComputedStyle(e, e.matches('.live') ? '::before' : null);
  return [mark.color, getComputedStyle(e.closest('a, button')).backgroundColor];
}"""


def top(page: Page) -> float:
    """Where the page begins below its bar."""
    box = page.locator("main h1").bounding_box()
    assert box is not None
    return box["y"]


def test_a_telephone_does_not_jump_when_it_is_paused_or_cut_off(open_page: Open) -> None:
    """`Not connected, 22s` did not fit beside the names: the bar became a line higher."""
    cast.one_night(groups=1)
    page = open_page("/groups/", width=390)
    live(page)
    before = top(page)
    page.locator(".live").click()
    expect(page.locator(".live")).to_contain_text("Paused")
    assert top(page) == before
    page.locator(".live").click()
    live(page)
    page.evaluate("connect = () => {}; socket.close()")
    expect(page.locator(".live")).to_contain_text("Not connected")
    assert top(page) == before
    expect(page.locator(".where")).to_contain_text("Production")


def test_a_paused_page_grows_older(open_page: Open) -> None:
    """It was "Paused, <1s" for as long as it stood still, and on paper as of now."""
    cast.one_night(groups=1)
    page = open_page("/groups/departures/")
    live(page)
    page.locator(".live").click()
    paused_as_of = page.evaluate("fresh")
    expect(page.locator(".live")).to_have_text(re.compile(r"^Paused, ([3-9]|\d\d)s$"), timeout=20_000)
    assert page.evaluate("fresh") == paused_as_of
    page.locator(".live").click()
    live(page)
    page.wait_for_function("(then) => fresh > then", arg=paused_as_of)


def test_a_long_word_stands_beside_its_mark(open_page: Open) -> None:
    """The mark stood alone on a line above it."""
    cast.one_night(groups=1)
    page = open_page("/groups/departures/")
    live(page)
    page.evaluate("say('It is gone: deleted while this page was open. '.repeat(4), 'dead', true)")
    toast = page.locator(".toast")
    expect(toast).to_be_visible()
    mark, whole = toast.locator(".mark").bounding_box(), toast.bounding_box()
    assert mark is not None and whole is not None
    assert abs(mark["y"] + mark["height"] / 2 - whole["y"] - whole["height"] / 2) < 2


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_in_forced_colours_the_marks_of_the_bar_are_seen(open_page: Open, theme: str) -> None:
    """They kept the ink of a lit tile, which is black, on a black bar."""
    cast.one_night(groups=1)
    page = open_page("/groups/", theme=theme)
    live(page)
    page.emulate_media(forced_colors="active", color_scheme=theme)  # type: ignore[arg-type]
    for place in (".board a.bad .mark", ".board a.warn .mark >> nth=0", ".live"):
        ink, ground = page.locator(place).evaluate(COLOURS)
        light = [sum(map(int, colour[colour.index("(") + 1 : -1].split(",")[:3])) for colour in (ink, ground)]
        assert abs(light[0] - light[1]) > 250, f"{place}: {ink} on {ground}"
