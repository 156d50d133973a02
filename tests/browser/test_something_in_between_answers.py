"""A proxy answers in the place of the web process, or lets words lie: a page takes neither for what is."""

import json
import re

import pytest
from playwright.sync_api import Page, Route, WebSocketRoute, expect

from groups.models import ConsumerGroup
from runtime import wake
from tests.browser.conftest import Open
from tests.browser.test_pages_in_chromium import live
from tests.integration.web import cast

pytestmark = pytest.mark.browser

NOT_OURS = "<!doctype html><title>Back soon</title><h1>We are back soon</h1>"


def answers(page: Page, address: str, status: int) -> None:
    """It answers so from now on, and something has changed."""
    page.route(address, lambda route: route.fulfill(status=status, body=NOT_OURS, content_type="text/html"))
    ConsumerGroup.objects.update(generation=44, version=999)
    wake.notify("group", "departures")


@pytest.mark.parametrize("status", [200, 404, 502])
def test_its_page_is_not_put_in_and_deletes_nothing(open_page: Open, status: int) -> None:
    """Under 200 the page was "Live" with values of before, under 404 it had been deleted."""
    cast.departures(cast.add_topic("flights", 6, [(1, 2, 3)]))
    page = open_page("/groups/departures/")
    live(page)
    title = page.title()
    answers(page, "**/groups/departures/", status)
    strip = page.locator("[data-notlive]")
    expect(strip).to_contain_text("They could not be read again")
    expect(page.locator(".live")).to_have_text("No data now")
    assert title in page.title()
    expect(page.get_by_text("It is gone")).to_have_count(0)
    page.unroute_all()
    live(page)
    expect(page.locator("#head .big-state")).to_contain_text("generation 44")
    expect(strip).to_be_hidden()


def test_its_page_takes_no_list_away(open_page: Open) -> None:
    """The list, and its filter with it, was replaced by nothing."""
    cast.one_night(groups=5)
    page = open_page("/groups/")
    live(page)
    answers(page, "**/groups/?q=*", 200)
    page.get_by_label("Group or topic contains").press_sequentially("dep")
    expect(page.get_by_role("status")).to_contain_text("The list could not be read")
    expect(page.locator("#list tbody tr").first).to_be_visible()
    page.unroute_all()
    page.get_by_label("Group or topic contains").press_sequentially("a")
    page.wait_for_url("**q=depa*")


def test_words_that_lay_for_long_do_not_make_a_page_younger(open_page: Open) -> None:
    """A page behind a slow link said that it had been true just now."""
    cast.one_night(groups=1)

    def slow(route: WebSocketRoute) -> None:
        def say(told: str | bytes) -> None:
            word = json.loads(told)
            if "as_of_ms" in word:
                word["as_of_ms"] -= 60_000
            route.send(json.dumps(word))

        route.connect_to_server().on_message(say)

    page = open_page("/")
    page.route_web_socket(re.compile("/ws/live/"), slow)
    page.goto(f"{page.url}groups/")
    live(page)
    expect(page.locator(".live")).to_have_text(re.compile(r"^Live, ([3-9]|\d\d)\.\ds$"))


def test_an_answer_that_lay_for_long_does_not_set_the_clock_of_a_page_back(open_page: Open) -> None:
    """Everything that the page told the age of was younger by what the answer had been on its way."""
    cast.departures(cast.add_topic("flights", 6, [(1, 2, 3)]))
    page = open_page("/")
    page.clock.install()
    page.goto(f"{page.url}groups/departures/")
    live(page)
    before = page.evaluate("ahead")

    def lie(route: Route) -> None:
        answer = route.fetch()
        page.clock.fast_forward(5_000)
        route.fulfill(response=answer)

    page.route("**/groups/departures/", lie)
    ConsumerGroup.objects.update(generation=44, version=999)
    wake.notify("group", "departures")
    expect(page.locator("#head .big-state")).to_contain_text("generation 44")
    # What runs on stands still for nobody, but not five seconds.
    assert abs(page.evaluate("ahead") - before) < 2_500


NOWHERE = """window.WebSocket = class extends WebSocket {
  constructor() { super(location.origin.replace("http", "ws") + "/nowhere/"); }
}"""


def test_a_page_whose_websocket_does_not_come_through_asks_and_says_so(open_page: Open) -> None:
    """It was read again at each try, and said all the while that it was not connected and old."""
    cast.departures(cast.add_topic("flights", 6, [(1, 2, 3)]))
    page = open_page("/", width=390)
    page.add_init_script(NOWHERE)
    page.goto(f"{page.url}groups/departures/")
    said, strip = page.locator(".live"), page.locator("[data-notlive]")
    expect(said).to_have_text(re.compile(r"^Live by polling, (<1|\d+)s$"))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    ConsumerGroup.objects.update(generation=44, version=999)
    expect(page.locator("#head .big-state")).to_contain_text("generation 44")
    # Longer than three seconds, of which a live page is silent for none.
    page.evaluate("polled -= 15000, heard -= 15000, show()")
    expect(said).to_contain_text("Live by polling")
    expect(strip).to_be_hidden()
    # Nor while it was paused was anything lost: what is shown is as old as it says until it was read again.
    held: list[Route] = []
    page.route("**/groups/departures/", lambda route: held.append(route))
    page.evaluate("live.click(), polled -= 60000, heard -= 60000, fresh -= 60000, live.click()")
    expect(said).to_have_text(re.compile(r"^Live by polling, 1m \d+s$"))
    expect(strip).to_be_hidden()
    page.route("**/groups/departures/", lambda route: route.fulfill(status=502, body=NOT_OURS))
    for one in held:
        one.abort()
    expect(strip).to_be_visible()


def test_a_page_whose_websocket_is_held_asks(open_page: Open) -> None:
    """It waited for the next word for ever, though its address was answered."""
    cast.departures(cast.add_topic("flights", 6, [(1, 2, 3)]))
    page = open_page("/groups/departures/")
    live(page)
    ConsumerGroup.objects.update(generation=44, version=999)
    page.evaluate("connect = () => {}; socket.onmessage = null; heard -= 10000; begun -= 10000; watchdog()")
    expect(page.locator(".live")).to_have_text(re.compile("^Live by polling"))
    expect(page.locator("#head .big-state")).to_contain_text("generation 44")
