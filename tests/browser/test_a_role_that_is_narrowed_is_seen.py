"""On a page that is open while a role is narrowed nothing is offered any more that would be refused."""

import pytest
from playwright.sync_api import expect

from access.grants import Role
from access.service import create_user
from tests.browser.conftest import Open
from tests.browser.test_pages_in_chromium import live
from tests.integration.web import cast

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("address", ["/topics/flights/", "/brokers/1/", "/groups/departures/"])
def test_what_a_viewer_may_not_do_leaves_the_page(open_page: Open, address: str) -> None:
    """The foot said viewer, and above it stood what was to be deleted."""
    cast.one_night(groups=1)
    page = open_page(address)
    live(page)
    expect(page.locator("#actions")).to_be_visible()
    create_user("mira", Role.VIEWER, None)
    # It reads itself each half minute, or when it is told to go on.
    page.get_by_role("button", name="Live").click()
    page.get_by_role("button", name="Paused").click()
    expect(page.locator("#actions")).to_have_count(0)
    expect(page.locator(".who")).to_have_attribute("title", "Signed in as mira. Role: viewer.")
