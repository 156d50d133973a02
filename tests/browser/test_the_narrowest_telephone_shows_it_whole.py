"""Times, counts, plans, racks and addresses are whole on narrow pages; no name ends a line at a hyphen."""

from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from controller.models import Broker, Topic
from groups.models import GroupMember
from runtime.models import JournalEntry
from tests.browser.conftest import Open
from tests.browser.test_pages_in_chromium import live, width_of
from tests.integration.web import cast
from tests.integration.web.test_plans_are_shown_and_steered import add_plan

pytestmark = pytest.mark.browser

# Elements of which something is cut off, or stands out over what is beside it, by their text.
CUT = """elements => elements.filter((e) => e.checkVisibility() && getComputedStyle(e).display !== 'inline'
  && e.scrollWidth > e.clientWidth + 1).map((e) => e.innerText)"""

# Neighbours in a row whose texts touch, or nearly do.
TOUCHING = """row => {
  const cells = [...row.cells].filter((one) => one.checkVisibility());
  const around = cells.map((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return range.getBoundingClientRect();
  });
  return around.slice(1).filter((one, at) => one.left - around[at].right < 4).length;
}"""

# What a name shows on each of its lines.
LINES = """element => {
  const lines = new Map(), letters = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  while (letters.nextNode())
    for (let at = 0; at < letters.currentNode.length; at++) {
      const range = document.createRange();
      range.setStart(letters.currentNode, at);
      range.setEnd(letters.currentNode, at + 1);
      const top = Math.round(range.getBoundingClientRect().bottom);
      lines.set(top, (lines.get(top) || '') + letters.currentNode.data[at]);
    }
  return [...lines.values()];
}"""


def cut(page: Page, which: str) -> list[str]:
    """Of these elements the texts of those that are wider than their room."""
    found: list[str] = page.locator(which).evaluate_all(CUT)
    return found


def test_no_time_and_no_plan_is_cut_and_no_counts_touch(open_page: Open) -> None:
    """`Thu 22…` stood where the time of a rebalance was, `Drain bro…` for each plan, `2 of 32 of 3`."""
    cast.one_night(groups=1)
    add_plan()
    JournalEntry.objects.update(at=timezone.now() - timedelta(days=2))
    page = open_page("/groups/departures/", width=320)
    live(page)
    assert page.locator("#history time").count() > 2
    assert cut(page, "#history td:has(time)") == []
    assert page.locator(".below tr:last-child").evaluate(TOUCHING) == 0
    assert "2 of 3" in (page.locator(".below tr:last-child").text_content() or "")
    page.goto(page.url.partition("/groups")[0] + "/plans/")
    assert page.get_by_role("link", name="Drain broker 3").is_visible()
    assert cut(page, "main tbody :is(th, td, a)") == []


@pytest.mark.parametrize("width", [1440, 1100, 390])
def test_racks_addresses_and_versions_are_whole(open_page: Open, width: int) -> None:
    """What tells them apart is their end, which was cut off."""
    cast.one_night(groups=1)
    for broker in Broker.objects.all():
        broker.rack = f"eu-central-1-availability-zone-a-hall-7-row-{broker.broker_id}"
        broker.endpoints = {"client": f"kafka.of.the.cluster.aero-prod.example.com:909{broker.broker_id}"}
        broker.save()
    GroupMember.objects.update(client_host="2001:db8:85a3:8d3:1319:8a2e:370:7348")
    for address, which in (
        ("/", "#brokers tbody td"),
        ("/brokers/", "main tbody td"),
        ("/groups/departures/", "#members tbody td"),
        ("/cluster/", "#processes td, .matrix thead small"),
    ):
        page = open_page(address, width=width)
        assert page.locator(which).count() > 0
        assert cut(page, which) == [], address


def test_what_an_owner_kept_and_gave_up_is_said_to_the_end(open_page: Open) -> None:
    """`2 kept, 4 added, 2 give` stood beside a member that had lost some and got others."""
    cast.one_night(groups=1)
    page = open_page("/groups/departures/", width=1440)
    page.locator(".lanes tbody th small").first.evaluate(
        "e => { e.textContent = '12 kept, 14 added, 12 given up' }"
    )
    assert cut(page, ".lanes tbody th") == []
    page.set_viewport_size({"width": 390, "height": 900})
    expect(page.locator(".lanes small").first).to_be_hidden()


def test_no_name_ends_a_line_at_a_hyphen(open_page: Open) -> None:
    """Also of other letters, in what members say of an error, and of the cluster at its door."""
    name = "größe-der-straße-und-überhaupt-alles"
    cast.add_cluster()
    cast.add_group(name, error=f"topic {name} is not there")
    door, page = open_page("/login/", width=320, signed_in=False), open_page("/", width=320)
    parted = {}
    for width in range(320, 460, 4):
        for one, which in ((door, "h1"), (page, ".watch h2 a"), (page, ".watch li > :nth-child(3)")):
            one.set_viewport_size({"width": width, "height": 900})
            lines = one.locator(which).first.evaluate(LINES)
            if any(line.rstrip().endswith("-") for line in lines):
                parted[width, which] = lines
    assert parted == {}


def test_at_which_broker_clients_wait_and_what_moved_are_said_to_the_end(open_page: Open) -> None:
    """Broker 1114 was shown as broker 11, and the sentence above a wide assignment ended amid it."""
    cast.one_night(groups=1)
    cast.add_broker(1114)
    cast.say(1114, 10**11, throttled=[cast.waits("etl-" + "x" * 200, user="olga")])
    group = cast.add_group("shipping")
    cast.add_member(group, "ann")
    cast.own(group, Topic.objects.get(name="orders"), "ann", range(12))
    page = open_page("/quotas/", width=390)
    assert "1114" in page.locator("#waiting tbody").inner_text()
    assert cut(page, "#waiting :is(td, th, table, a)") == []
    page.goto(page.url.replace("/quotas/", "/groups/shipping/"))
    room = page.locator("main").evaluate("e => e.getBoundingClientRect().right")
    assert page.locator(".lanes caption").evaluate("e => e.getBoundingClientRect().right") <= room


@pytest.mark.parametrize("width", [720, 768])
def test_at_twice_the_size_long_ids_of_clients_that_wait_fit(open_page: Open, width: int) -> None:
    """Half of a wide screen scrolled sideways, past what a telephone shows whole."""
    cast.add_cluster()
    cast.add_broker(1)
    cast.say(1, 500_000, throttled=[cast.waits("etl-" + "x" * 200, user="olga")])
    page = open_page("/quotas/", width=width)
    expect(page.locator("#waiting tbody tr")).to_have_count(1)
    content, window = width_of(page)
    assert content <= window
