"""A page that stands open shows other rows by itself when something breaks: its filter says which."""

import pytest
from playwright.sync_api import expect

from controller.models import Broker
from tests.browser.conftest import Open
from tests.browser.test_pages_in_chromium import live
from tests.integration.web import cast

pytestmark = pytest.mark.browser


def fence(broker_id: int, fenced: bool) -> None:
    Broker.objects.filter(broker_id=broker_id).update(
        fenced=fenced, metadata_version=90_000 + 2 * broker_id + fenced, changed_at=cast.ago(seconds=0)
    )


def test_the_filter_follows_the_rows_until_somebody_has_chosen(open_page: Open) -> None:
    cast.add_cluster()
    for broker_id in (1, 2, 3):
        cast.add_broker(broker_id)
    cast.add_topic("orders", 2, [(1, 2, 3)])
    page = open_page("/cluster/")
    live(page)
    chosen = page.locator("input[name=show]:checked")
    expect(chosen).to_have_value("all")
    fence(3, True)
    expect(page.locator("#partitions")).to_contain_text("out of sync")
    expect(page.get_by_text("under-replicated").first).to_be_visible()
    expect(chosen).to_have_value("attention")
    # Somebody is about to filter: what they chose is theirs.
    page.locator("input[name=show][value=offline]").evaluate("e => { e.checked = true; }")
    fence(3, False)
    expect(page.get_by_role("heading", name="Every partition is in full sync")).to_be_visible()
    expect(chosen).to_have_value("offline")


BESIDE = """() => {
  const box = document.activeElement.closest('label').getBoundingClientRect();
  return box.left < 0 || box.right > innerWidth ? document.activeElement.value : '';
}"""


def test_on_a_telephone_the_choice_that_has_the_focus_is_seen_whole(open_page: Open) -> None:
    """A browser takes for seen what is seen in part: the words of the choice were not."""
    cast.one_night(groups=3)
    page = open_page("/groups/", width=320)
    page.get_by_role("searchbox").focus()
    beside = set()
    for _ in range(8):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.toggle input')"):
            beside.add(page.evaluate(BESIDE))
    assert beside == {""}
