"""What was opened over a page is left by Escape, and the focus is where it was before."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.test_pages_in_chromium import live
from tests.integration.web import cast

pytestmark = pytest.mark.browser


def test_the_choice_of_a_moment_is_left_by_escape(open_page: Open) -> None:
    """It lay over the page until somebody found the way back to what had opened it."""
    cast.one_night(groups=1)
    page = open_page("/topics/flights/")
    live(page)
    opener, field = page.locator(".asof summary"), page.get_by_label("Show the topic as of")
    opener.focus()
    page.keyboard.press("Enter")
    expect(field).to_be_visible()
    field.focus()
    page.keyboard.press("Escape")
    expect(field).to_be_hidden(timeout=5_000)
    expect(opener).to_be_focused()
