"""Things change and people act while an answer is under way: nothing is lost, nothing is stale."""

import re
from collections.abc import Callable

import pytest
from django.db import connection
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import Open
from tests.browser.test_a_filter_says_which_rows_are_shown import fence
from tests.browser.test_pages_in_chromium import live
from tests.integration.web import cast

pytestmark = pytest.mark.browser


def a_cluster() -> None:
    cast.add_cluster()
    for broker_id in (1, 2, 3):
        cast.add_broker(broker_id)


def broker_3_is_lost(shown: Locator) -> None:
    fence(3, True)
    # What answers a route has a connection of its own.
    connection.close()
    expect(shown).to_have_count(1)


def before_the_answer_arrives(page: Page, address: str, act: Callable[[], object]) -> None:
    """Do this once when the server has answered, and the page has not heard it yet."""
    acts = [act]

    def go_on(route: Route) -> None:
        answer = route.fetch()
        if acts:
            acts.pop()()
        route.fulfill(response=answer)

    page.route(address, go_on)


def test_what_changes_while_a_filter_is_asked_is_shown(open_page: Open) -> None:
    """The answer, older than what was read meanwhile, replaced it, and the page was "Live"."""
    a_cluster()
    cast.add_topic("orders", 2, [(1, 2, 3)])
    page = open_page("/cluster/?show=all")
    live(page)
    fenced = page.locator("#partitions th.lost")

    before_the_answer_arrives(page, "**/cluster/?q=ord*", lambda: broker_3_is_lost(fenced))
    page.get_by_role("searchbox").focus()
    page.keyboard.type("ord")
    page.wait_for_url("**q=ord*")
    expect(fenced).to_have_count(1)


def test_a_filter_goes_on_asking_while_rows_come(open_page: Open) -> None:
    """The first row to come replaced the form that asked, and took the focus from who typed."""
    a_cluster()
    cast.add_topic("orders", 2, [(1, 2, 3)])
    page = open_page("/cluster/?show=attention")
    live(page)
    fenced = page.locator("#partitions th.lost")

    before_the_answer_arrives(page, "**/cluster/?q=ord*", lambda: broker_3_is_lost(fenced))
    search = page.get_by_role("searchbox")
    search.focus()
    page.keyboard.type("ord")
    page.wait_for_url("**q=ord*")
    expect(search).to_have_value("ord")
    expect(search).to_be_focused()
    expect(fenced).to_have_count(1)


def test_a_filter_that_comes_by_itself_filters(open_page: Open) -> None:
    """Typed into it was for nothing until the page was loaded again."""
    a_cluster()
    page = open_page("/cluster/")
    live(page)
    cast.add_topic("orders", 2, [(1, 2, 3)])
    page.get_by_role("searchbox").focus()
    page.keyboard.type("zzz")
    page.wait_for_url("**q=zzz*")
    expect(page.get_by_text("No partition matches")).to_be_visible()


def test_nothing_moves_once_somebody_has_paused(open_page: Open) -> None:
    """An answer that was under way when they paused was put in all the same."""
    a_cluster()
    cast.add_topic("orders", 2, [(1, 2, 3)])
    page = open_page("/cluster/?show=all")
    live(page)
    fenced = page.locator("#partitions th.lost")
    before_the_answer_arrives(page, "**/cluster/?show=all", page.locator(".live").click)
    fence(3, True)
    expect(page.locator(".live")).to_have_attribute("data-state", "paused")
    page.wait_for_function("() => !reading")
    expect(fenced).to_have_count(0)
    page.locator(".live").click()
    expect(fenced).to_have_count(1)


def test_a_page_says_that_a_part_of_it_is_held(open_page: Open) -> None:
    """Somebody stood in the list of what is wrong: it stayed as it was, without a word, under "Live"."""
    a_cluster()
    orders = cast.add_topic("orders", 2, [(1, 2)])
    cast.note_log(2, orders, 0, "damaged", "a batch has another CRC")
    page = open_page("/brokers/2/")
    live(page)
    page.locator("#watch a").first.focus()
    cast.say(2, 500_000)
    expect(page.locator("#tiles")).to_contain_text("1 disk full")
    expect(page.locator(".live")).to_have_text("Live, held")
    expect(page.locator(".live")).to_have_attribute("title", re.compile("put in when you leave it"))
    expect(page.locator("#watch")).not_to_contain_text("takes no records")
    page.locator(".live").focus()
    expect(page.locator("#watch")).to_contain_text("takes no records")
    expect(page.locator(".live")).to_have_text(re.compile(r"^Live, \d"))
