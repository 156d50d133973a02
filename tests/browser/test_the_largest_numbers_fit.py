"""Lags of nineteen digits, topics of 10,000 partitions and names of one letter fit a telephone as a desk."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.test_pages_in_chromium import BASICS, FITS, width_of
from tests.integration.web import cast

pytestmark = pytest.mark.browser


def test_the_largest_numbers_and_the_shortest_names_fit(open_page: Open) -> None:
    cast.add_cluster()
    for broker in range(1, 7):
        cast.add_broker(broker)
    telemetry = cast.add_topic("telemetry", 4, [(1, 2, 5)], high_watermark=10**18 - 1)
    cast.add_topic("clicks", 10_000, [(1, 2), (2, 5), (5, 1)])
    for name in ("eighteen-digits", "x"):
        group = cast.add_group(name, generation=7)
        for member, partitions in (("consumer-4c1b0f52-ann", (0, 1)), ("ben", (2, 3))):
            cast.add_member(group, member)
            cast.own(group, telemetry, member, partitions)
        for number in range(4):
            cast.commit(group, telemetry, number, 0, cast.ago(minutes=9))
    for address in ("/groups/eighteen-digits/", "/groups/", "/cluster/?show=all"):
        page = open_page(address)
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": 900})
            content, window = width_of(page)
            assert content <= window, f"{address} {width}"
            assert page.evaluate(BASICS) == [] and page.evaluate(FITS) == [], f"{address} {width}"
        page.context.close()
    page = open_page("/groups/eighteen-digits/", width=390)
    sum_of_all = page.locator("#partitions tfoot td[data-live]")
    expect(sum_of_all).to_have_text("\u202f".join(["3", *["999"] * 5, "996"]))


@pytest.mark.parametrize("brokers", [8, 12, 30])
def test_however_many_brokers_there_are_no_page_scrolls_sideways(open_page: Open, brokers: int) -> None:
    """With thirty the page of the cluster was 2,270 pixels wide, and 1,011 on a telephone."""
    cast.add_cluster()
    for broker in range(1, brokers + 1):
        cast.add_broker(broker, fenced=broker == 3)
    replicas = [(one + 1, (one + 1) % brokers + 1, (one + 2) % brokers + 1) for one in range(brokers)]
    topic = cast.add_topic("telemetry.vehicle-positions.v3", 2_000, replicas, out=[3], high_watermark=10**9)
    cast.move(topic, 0, (brokers, brokers - 1, brokers - 2))
    for address in ("/cluster/?show=all", "/brokers/", f"/topics/{topic.name}/", "/reassignments/"):
        page = open_page(address)
        for width in (1440, 1024, 390, 320):
            page.set_viewport_size({"width": width, "height": 900})
            content, window = width_of(page)
            assert content <= window, f"{address} {width}"
            assert page.evaluate(FITS) == [] or width == 320, f"{address} {width}"
        page.context.close()
