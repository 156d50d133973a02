"""Names of 249 letters, groups of many partitions and of several topics fit every page that shows them."""

import pytest

from tests.browser.conftest import Open
from tests.browser.test_pages_in_chromium import BASICS, FITS, live, looks, width_of
from tests.integration.web import cast

pytestmark = pytest.mark.browser


def test_the_longest_names_and_many_partitions_fit(open_page: Open) -> None:
    """249 letters without a place to break, a group of many members, an error of one long word."""
    long = "w" * 249
    cast.add_cluster()
    cast.add_broker(1, rack=long)
    topic = cast.add_topic(long, 2, [(1,)], high_watermark=10**9)
    group = cast.add_group(long, generation=10**12, error="e" * 500)
    cast.add_member(group, long, client_id=long, client_host="c" * 64, node="n" * 64)
    cast.own(group, topic, long, [0])
    cast.commit(group, topic, 0, 1)
    wide = cast.add_group("wide")
    clicks = cast.add_topic("clicks", 200, [(1,)])
    for number in range(20):
        cast.add_member(wide, f"member-{number}")
        cast.own(wide, clicks, f"member-{number}", range(number * 10, number * 10 + 10))
    mixed = cast.add_group("mixed")
    cast.add_member(mixed, "ann")
    for name in ("a" * 249, "parcels"):
        cast.own(mixed, cast.add_topic(name, 10, [(1,)]), "ann", range(10))
    for address in (
        "/",
        "/groups/",
        f"/groups/{long}/",
        "/groups/wide/",
        "/groups/mixed/",
        "/cluster/?show=all",
        f"/groups/?q={long[1:]}x",
    ):
        page = open_page(address)
        live(page)
        for look in looks(page):
            content, window = width_of(page)
            assert content <= window, look
            assert page.evaluate(BASICS) == [], look
            assert page.evaluate(FITS) == [], look
        page.context.close()
