"""Requests to the controller are found while one types and chooses; the focus stays where it is."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.test_answers_meet_changes import before_the_answer_arrives
from tests.browser.test_pages_of_plans_can_be_steered import UNDER_WAY
from tests.integration.web import cast
from tests.integration.web.test_operators_are_shown_what_would_come_of_it import add_requests

pytestmark = pytest.mark.browser
ASKED = "**/cluster/requests/?*"


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


def test_what_is_typed_while_an_answer_is_under_way_stays(open_page: Open) -> None:
    """The answer replaces the field as well: the letters since then were lost, and were never asked for."""
    cast.add_cluster()
    add_requests()
    page = open_page("/cluster/requests/")
    before_the_answer_arrives(page, ASKED, lambda: page.keyboard.type("la"))
    search = page.get_by_role("searchbox")
    search.focus()
    page.keyboard.type("o")
    page.wait_for_url("**q=ola*")
    expect(page.locator(UNDER_WAY)).to_have_count(0)
    expect(search).to_have_value("ola")
    expect(search).to_be_focused()


def test_what_is_chosen_while_an_answer_is_under_way_stays(open_page: Open) -> None:
    cast.add_cluster()
    add_requests()
    page = open_page("/cluster/requests/")
    kind = page.get_by_label("Kind")
    before_the_answer_arrives(page, ASKED, lambda: kind.select_option("DeleteTopics"))
    page.get_by_role("searchbox").focus()
    page.keyboard.type("ola")
    expect(page.get_by_text("No request matches")).to_be_visible()
    expect(kind).to_have_value("DeleteTopics")
