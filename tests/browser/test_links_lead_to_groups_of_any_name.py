"""A link to a group leads Chromium to that group, whatever a browser makes of its name in an address."""

import pytest
from playwright.sync_api import expect

from groups.fingerprints import GROUP
from tests.browser.conftest import Open
from tests.integration.web import cast

pytestmark = pytest.mark.browser

NAMES = ("a/../b", "..", "./b", "two\nlines", "carriage\rreturn", "tab\tb", "a?b#c%2e%2e/", "b\\..\\c", " b ")


def test_each_name_has_its_page_and_its_form(open_page: Open) -> None:
    """`a/../b` led to `b`: its form for deleting asked whether to delete that."""
    cast.add_cluster()
    for name in ("b", *NAMES):
        cast.add_group(name, phase="Empty")
    page = open_page("/groups/")
    listed, shown = page.url, set()
    for number in range(len(NAMES) + 1):
        page.goto(listed)
        page.locator("tbody th a").nth(number).click()
        expect(page.get_by_role("link", name="Delete the group")).to_be_visible()
        watched = page.locator("body").get_attribute("data-watch")
        page.get_by_role("link", name="Delete the group").click()
        page.get_by_role("link", name="Leave it").click()
        expect(page.locator("body")).to_have_attribute("data-watch", str(watched))
        shown.add(watched)
    assert shown == {f"{GROUP}{name}" for name in ("b", *NAMES)}
