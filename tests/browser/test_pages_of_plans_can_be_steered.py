"""A plan's page on a telephone: its filter filters, its form shows again, a refusal is whole and leads on."""

import pytest
from playwright.sync_api import expect

from controller.models import Plan
from tests.browser.conftest import Open
from tests.integration.web import cast
from tests.integration.web.test_plans_are_shown_and_steered import add_plan, refused

pytestmark = pytest.mark.browser

UNDER_WAY = ".htmx-request, .htmx-settling, .htmx-swapping"
"""What bears these classes is being asked for, or put into the page."""


def a_plan() -> Plan:
    cast.add_cluster()
    for broker in range(1, 4):
        cast.add_broker(broker)
    return add_plan("Running")


def test_its_filter_filters_by_a_press(open_page: Open) -> None:
    """The button was hidden on a telephone, and nothing else asked."""
    page = open_page(f"/plans/{a_plan().id}/", width=390)
    expect(page.locator("#steps tbody tr")).to_have_count(3)
    page.get_by_text("Waiting 1").click()
    expect(page.locator("#steps tbody tr")).to_have_count(1)
    expect(page.locator("#steps tbody")).to_contain_text("flights-2")


def test_a_filter_keeps_the_focus_of_who_steps_through_it(open_page: Open) -> None:
    """The form is part of what it reads anew: whoever chose by keys began at the top of the page again."""
    address = f"/plans/{a_plan().id}/"
    cast.add_topic("orders", 1, [(1, 2)])
    for shown, second in ((address, "Waiting"), ("/topics/", "attention")):
        page = open_page(shown)
        page.locator(".filter [type=radio]").first.focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_url(f"**={second}*")
        expect(page.locator(UNDER_WAY)).to_have_count(0)
        expect(page.locator(f"[value={second}]")).to_be_focused()
    page.get_by_role("searchbox").focus()
    page.keyboard.type("ord")
    page.wait_for_url("**q=ord*")
    expect(page.locator(UNDER_WAY)).to_have_count(0)
    page.keyboard.type("ers")
    expect(page.get_by_role("searchbox")).to_have_value("orders")


def test_what_would_come_of_it_is_shown_again_before_a_reason_is_given(open_page: Open) -> None:
    """The browser asked for the reason first, and what was shown was no longer what would come of it."""
    page = open_page(f"/cluster/ask/plan-cancel/plan/{a_plan().id}/", width=390)
    show = page.get_by_role("button", name="Show what would come of it")
    show.click()
    expect(page.locator("#would-be")).to_contain_text("goes on to the end")
    page.locator("[name=moves]").check()
    show.click()
    expect(page.locator("#would-be")).to_contain_text("goes back to where it was")


def test_a_refusal_is_whole_and_leads_to_the_plan(open_page: Open) -> None:
    made = a_plan()
    address = f"/cluster/requests/{refused(made).id}/"
    cut = "(e) => [e, e.closest('td, th')].some((one) => one.scrollWidth > one.clientWidth)"
    for shown in ("/cluster/requests/", address):
        page = open_page(shown, width=390)
        result = page.locator("tbody .state")
        expect(result).to_have_text("refused")
        assert not result.evaluate(cut), "what became of it is cut"
        for link in page.locator("tbody th a").all():
            assert not link.evaluate(cut), "what was asked, or of what, is cut"
    page.get_by_role("link", name="To Drain broker 3").click()
    page.wait_for_url(f"**/plans/{made.id}/")


def test_few_replicas_stand_on_one_line(open_page: Open) -> None:
    a_plan()
    cast.move(cast.add_topic("orders", 1, [(1, 3)]), 0, (2, 1))
    page = open_page("/reassignments/")
    heights = page.locator("#run tbody .reps").evaluate_all("all => all.map((e) => e.clientHeight)")
    assert len(heights) == 2 and max(heights) < 30
