"""What a page says is there on paper, read aloud, without script, and in letters of twice the size."""

import re

import pytest
from django.utils import timezone
from playwright.sync_api import Browser, expect

from controller.models import Broker
from runtime import wake
from tests.browser.conftest import Open
from tests.browser.test_pages_in_chromium import live, width_of
from tests.integration.web import cast
from tests.integration.web.served import WebProcess

pytestmark = pytest.mark.browser


def test_paper_says_of_which_cluster_it_is_and_as_of_when(open_page: Open) -> None:
    """The bar stays behind, and with it whatever said so."""
    cast.one_night(groups=1)
    began = timezone.now()
    page = open_page("/")
    live(page)
    told = page.locator(".foot .paper")
    expect(told).to_be_hidden()
    page.emulate_media(media="print")
    expect(told).to_be_visible()
    days = "|".join({f"{day:%Y-%m-%d}" for day in (began, timezone.now())})
    expect(told).to_contain_text(re.compile(f"aero-prod, Production, as of ({days})"))
    # One that nothing changed stayed open over midnight: the time went on without its day.
    page.evaluate("fresh = Date.UTC(2126, 0, 2, 0, 1); show()")
    expect(told).to_contain_text("as of 2126-01-02 00:01:00")


def test_that_something_is_found_is_read_out(open_page: Open) -> None:
    cast.add_cluster()
    for broker in (1, 2):
        cast.add_broker(broker)
    page = open_page("/groups/")
    live(page)
    assert page.locator("#heard[aria-live=polite]").inner_text() == ""
    Broker.objects.filter(broker_id=2).update(fenced=True, changed_at=timezone.now())
    wake.notify("rows", "cluster")
    expect(page.locator("#heard")).to_have_text("Overview: 1 finding")


def test_a_telephone_without_script_filters_and_is_told_of_no_keys(
    open_page: Open, web: WebProcess, browser: Browser
) -> None:
    """The button was hidden there for want of room, and the choice alone asks nobody."""
    cast.one_night()
    signed_in = open_page("/").context.storage_state()
    viewport = {"width": 390, "height": 900}
    plain = browser.new_context(java_script_enabled=False, storage_state=signed_in, viewport=viewport)  # type: ignore[arg-type]
    page = plain.new_page()
    page.goto(f"{web.url}/cluster/")
    page.locator("#partitions").get_by_text("All").first.click()
    page.locator("#partitions").get_by_role("button", name="Filter").click()
    expect(page).to_have_url(f"{web.url}/cluster/?q=&show=all")
    expect(page.get_by_text("for keys")).to_be_hidden()
    plain.close()


@pytest.mark.parametrize("address", ["/", "/groups/", "/groups/departures/", "/cluster/", "/topics/orders/"])
def test_in_letters_of_twice_the_size_nothing_scrolls_sideways(open_page: Open, address: str) -> None:
    cast.one_night(groups=3)
    page = open_page(address)
    sizes = {"standard": 32, "fixed": 26}
    page.context.new_cdp_session(page).send("Page.setFontSizes", {"fontSizes": sizes})
    expect(page.locator("html")).to_have_css("font-size", "32px")
    content, window = width_of(page)
    assert content <= window
