"""Requests to the controller are found while one types and chooses; the focus stays where it is."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.test_pages_of_plans_can_be_steered import UNDER_WAY
from tests.integration.web import cast
from tests.integration.web.test_operators_are_shown_what_would_come_of_it import add_requests

pytestmark = pytest.mark.browser


def test_they_are_found_by_whom_and_then_by_kind(open_page: Open) -> None:
    cast.one_night(groups=1)
    add_requests()
    page = open_page("/journal/")
    page.get_by_role("link", name="requests", exact=True).click()
    expect(page.locator("#list tbody tr")).to_have_count(4)
    search = page.get_by_role("searchbox")
    search.focus()
    page.keyboard.type("ola")
    expect(page.locator("#list tbody tr")).to_have_count(2)
    expect(page.locator(UNDER_WAY)).to_have_count(0)
    expect(search).to_be_focused()
    page.get_by_label("Kind").select_option("DeleteTopics")
    expect(page.get_by_text("No request matches")).to_be_visible()
    page.wait_for_url("**q=ola&kind=DeleteTopics*")
    page.locator(".filter").get_by_role("link", name="Show all").click()
    expect(page.locator("#list tbody tr")).to_have_count(4)
