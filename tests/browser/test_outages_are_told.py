"""While PostgreSQL or the workers are away, pages say so, and what was sent meanwhile is done once."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone
from playwright.sync_api import Page, expect

from controller.models import ElectionLoss, Plan
from runtime import wake
from runtime.models import Refusal, WorkItem
from standalone.postgres import Postgres
from tests.browser.conftest import Open
from tests.browser.test_pages_in_chromium import BASICS, CONTRAST, FITS, live, width_of
from tests.browser.test_what_happened_can_be_read import SIZES, a_night_with_a_loss
from tests.integration.web import cast
from tests.integration.web.served import closed
from tests.integration.web.test_plans_are_shown_and_steered import add_plan

pytestmark = pytest.mark.browser

UNANSWERED = "What you sent was not answered"
_WATCH = """(unsaid) => {
    window.said = [];
    const strip = document.querySelector("[data-notlive]"), text = strip.querySelector(unsaid);
    const look = () => { if (!strip.hidden && !text.hidden) window.said.push(text.textContent); };
    new MutationObserver(look).observe(strip, { attributes: true, subtree: true });
    look();
}"""
_FIELDS = "(form) => Object.fromEntries(new FormData(form))"


def looks(page: Page) -> None:
    """It fits and can be read, wide and narrow, in the light and in the dark."""
    for width, theme in SIZES:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        content, window = width_of(page)
        assert content <= window
        for question in (BASICS, FITS, CONTRAST):
            assert page.evaluate(question) == [], width


@contextmanager
def never_said(page: Page, unsaid: str) -> Iterator[None]:
    """For more than a second the strip is there, and this part of it is not shown, not for a moment."""
    page.evaluate(_WATCH, unsaid)
    yield
    expect(page.locator("[data-notlive] [data-old]")).to_have_text(re.compile(r"^([3-9]|\d\d)s"))
    assert page.evaluate("window.said") == []


def test_that_requests_were_refused_fits_every_page(open_page: Open) -> None:
    a_night_with_a_loss()
    text = (
        'duplicate key value violates unique constraint "partition_is_one_of_its_topic_and_of_no_other_one"'
    )
    rows = (
        ("controller", "cluster", "AlterReassignments"),
        ("coordinator/12", "departures" * 25, "Join, Leave"),
    )
    for lane, key, events in rows:
        facts = {"node": "node-1", "lane": lane, "key": key, "events": events, "number": 7}
        Refusal.objects.create(**facts, error="UniqueViolation", text=text)
    page = open_page("/")
    expect(page.get_by_text("14 requests were refused by a mistake of ours")).to_be_visible()
    looks(page)


def test_what_is_sent_while_postgresql_restarts_is_sent_again_and_done_once(
    open_page: Open, postgres_server: Postgres
) -> None:
    a_night_with_a_loss()
    loss = ElectionLoss.objects.values_list("id", flat=True)[0]
    overview = open_page("/")
    live(overview)
    overview.evaluate("window.loadedOnce = true")
    page = open_page(f"/cluster/ask/acknowledge-loss/loss/{loss}/")
    page.locator("[name=reason]").fill('seen, "all" of it')
    with closed(postgres_server, str(connections["default"].settings_dict["NAME"])):
        page.get_by_role("button", name="Acknowledge what it lost").click()
        expect(page.get_by_role("heading", name=UNANSWERED)).to_be_visible()
        expect(page.get_by_text("Sent again as it is, it is done once")).to_be_visible()
        expect(page.locator(".env")).to_have_text("Production")
        looks(page)
        expect(overview.get_by_text("The database does not answer")).to_be_visible()
        with never_said(overview, "[data-failed]"):
            page.get_by_role("button", name="Send it again").click()
        expect(page.get_by_role("heading", name=UNANSWERED)).to_be_visible()
        fields: dict[str, Any] = page.locator("form").evaluate(_FIELDS)
    assert not WorkItem.objects.exists()
    expect(page.get_by_role("status")).to_have_text("Pages are answered again: send it once more.")
    page.get_by_role("button", name="Send it again").click()
    page.wait_for_url("**/cluster/requests/*/")
    assert WorkItem.objects.get().reason == 'seen, "all" of it'
    address = f"/cluster/ask/acknowledge-loss/loss/{loss}/"
    again = page.request.post(page.url.partition("/cluster")[0] + address, form={**fields, "go": "yes"})
    assert again.url == page.url and WorkItem.objects.count() == 1
    live(overview)
    assert overview.evaluate("window.loadedOnce"), "nobody had to load it again"


def test_a_page_that_could_not_be_read_says_since_when_and_comes_by_itself(
    open_page: Open, postgres_server: Postgres
) -> None:
    """It stood there until somebody pressed Try again, and nobody saw how long that had been."""
    cast.one_night(groups=1)
    page = open_page("/groups/")
    live(page)
    with closed(postgres_server, str(connections["default"].settings_dict["NAME"])):
        expect(page.get_by_text("The database does not answer")).to_be_visible()
        page.reload()
        expect(page.get_by_role("heading", name="The page could not be read")).to_be_visible()
        expect(page.locator("main")).to_contain_text(re.compile(r"Not answered since \d\d:\d\d:\d\d UTC\."))
        expect(page.locator("main")).to_contain_text(re.compile("Asked again by itself, (once|. times)"))
        looks(page)
    live(page)


def test_the_overview_says_that_no_worker_takes_work_until_one_does(open_page: Open) -> None:
    cast.one_night(groups=1)
    page = open_page("/")
    live(page)
    said = page.get_by_role("link", name="No worker takes work")
    expect(said).to_have_count(0)
    for key in ("a", "b"):
        done(key, "spare of node-1")
    expect(said).to_be_visible()
    looks(page)
    done("c", "worker 7")
    expect(said).to_have_count(0)


OVERLAP = """([one, other]) => {
  const a = document.querySelector(one).getBoundingClientRect();
  const b = document.querySelector(other).getBoundingClientRect();
  return a.bottom > b.top && b.bottom > a.top;
}"""


@pytest.mark.parametrize("width", [1440, 1024, 720, 390])
def test_what_lies_over_the_lower_edge_hides_neither_the_end_nor_an_outcome(
    open_page: Open, postgres_server: Postgres, width: int
) -> None:
    """That a filter failed was said over why it did, and whoever wanted to sign out could not."""
    cast.one_night(groups=40)
    page = open_page("/groups/", width=width)
    live(page)
    with closed(postgres_server, str(connections["default"].settings_dict["NAME"])):
        expect(page.get_by_text("The database does not answer")).to_be_visible()
        page.get_by_label("Group or topic contains").press_sequentially("x")
        expect(page.get_by_role("status")).to_contain_text("The list could not be read")
        assert not page.evaluate(OVERLAP, [".toast", ".strip.over"])
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        assert not page.evaluate(OVERLAP, [".foot form", ".strip.over"])


def test_whoever_tries_again_is_still_told_that_the_database_does_not_answer(
    open_page: Open, postgres_server: Postgres
) -> None:
    """The strip offers to try now, and then said no more why there is nothing to be had."""
    cast.one_night(groups=1)
    page = open_page("/groups/")
    live(page)
    strip = page.locator("[data-notlive]")
    why = strip.get_by_text("The database does not answer")
    with closed(postgres_server, str(connections["default"].settings_dict["NAME"])):
        expect(why).to_be_visible()
        strip.get_by_role("button", name="Try now").click()
        expect(strip).to_contain_text("Not connected")
        expect(why).to_be_visible(timeout=5_000)
    live(page)
    expect(strip).to_be_hidden()


def test_a_page_that_fails_by_itself_does_not_say_that_the_database_does_not_answer(open_page: Open) -> None:
    """It said that nothing is committed and nobody elected, while the database answered everybody."""
    cast.one_night(groups=1)
    plan = add_plan("Running")
    page = open_page(f"/plans/{plan.id}/")
    live(page)
    strip = page.locator("[data-notlive]")
    with never_said(page, "[data-meanwhile]"):
        Plan.objects.update(options=[], version=8)
        expect(strip).to_contain_text("No data now")
        expect(strip.get_by_text("They could not be read again")).to_be_visible()
    looks(page)
    Plan.objects.update(options=plan.options, version=9)
    live(page)
    expect(strip).to_be_hidden()


def done(key: str, by: str) -> None:
    """A work item that was offered and done just now, and a turn that followed from it."""
    WorkItem.objects.create(
        kind="rebalance",
        lane="coordinator/0",
        key=key,
        payload={},
        state="adopted",
        claimed_by=by,
        claimed_at=timezone.now(),
    )
    group = cast.add_group(f"group-{key}")
    assert group.name
    wake.notify("rows", "groups")
