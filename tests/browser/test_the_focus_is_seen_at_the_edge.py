"""Whoever goes through a list by Tab sees the whole frame around where they are, also at its lower edge."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.test_pages_in_chromium import live
from tests.integration.web import cast

pytestmark = pytest.mark.browser

# How many pixels of the frame, which lies outside of what has the focus, are below the window.
HIDDEN_BELOW = """() => {
  const { outlineWidth, outlineOffset } = getComputedStyle(document.activeElement);
  const bottom = document.activeElement.getBoundingClientRect().bottom;
  return bottom + parseFloat(outlineWidth) + parseFloat(outlineOffset) - innerHeight;
}"""


def test_the_frame_around_a_row_at_the_lower_edge_is_whole(open_page: Open) -> None:
    cast.one_night(groups=30)
    page = open_page("/groups/")
    live(page)
    page.set_viewport_size({"width": 1440, "height": 400})
    rows = page.locator("#list tbody th a")
    expect(rows).to_have_count(32)
    rows.first.focus()
    for _ in range(20):
        page.keyboard.press("Tab")
        assert page.evaluate(HIDDEN_BELOW) <= 0
