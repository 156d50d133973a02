"""Every kind of page that links and forms lead to can be read: wide, narrow, light, dark, by its names."""

from collections import deque
from datetime import timedelta
from urllib.parse import urljoin, urlsplit

import pytest
from django.urls import resolve
from django.urls.exceptions import Resolver404
from django.utils import timezone
from playwright.sync_api import Page, expect

from controller.loss_models import ElectionLoss
from controller.models import ClientQuota, Topic
from groups import asking
from groups.core.requests import Asked, Rebalance
from groups.models import ConsumerGroup
from tests.browser.conftest import Open
from tests.browser.test_pages_in_chromium import BASICS, CONTRAST, FITS, width_of
from tests.integration.web import cast, classic_cast
from tests.integration.web.test_plans_are_shown_and_steered import add_plan

pytestmark = pytest.mark.browser

LOOKS = ((1440, "light"), (390, "dark"))
LEADS_OUT = frozenset({"logout", "login", "login-once", "readyz", "metrics"})

# What an element says describes or names it is there.
REFERENCES = """() => {
  const found = [];
  for (const means of ['aria-describedby', 'aria-controls', 'aria-labelledby'])
    for (const e of document.querySelectorAll(`[${means}]`))
      for (const id of e.getAttribute(means).split(' '))
        if (!document.getElementById(id)) found.push(`nothing is called ${id}`);
  return found;
}"""

# Whoever goes from control to control sees where they are; null behind the last one.
UNSEEN_FOCUS = """() => {
  const e = document.activeElement;
  if (e === document.body) return null;
  const own = getComputedStyle(e);
  const toggle = e.closest('label.toggle'), around = toggle && getComputedStyle(toggle);
  const seen = (style) => style && style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
  return seen(own) || seen(around) ? '' : e.outerHTML.slice(0, 120);
}"""


def kind_of(address: str) -> str | None:
    """The kind of page there: its name among the addresses, and what is asked on it; None: none of ours."""
    try:
        found = resolve(urlsplit(address).path)
    except Resolver404:
        return None
    if found.url_name is None or found.app_names or found.url_name in LEADS_OUT:
        return None
    return " ".join((found.url_name, str(found.kwargs.get("kind", "")))).strip()


def add_everything() -> None:
    """A night with trouble, groups of both protocols, plans, moves, a quota and what an election lost."""
    cast.one_night(groups=3)
    classic_cast.parcels(cast.add_topic("parcel-scans", 6, [(1, 2)]))
    orders = Topic.objects.get(name="orders")
    cast.move(orders, 0, (5, 2, 3))
    cast.move(orders, 1, (1, 5, 6), phase="Cancelled", reason="cancelled by ola")
    for phase in ("Draft", "Running", "Done"):
        add_plan(phase)
    ClientQuota.objects.create(user_name="olga", producer_byte_rate=5_000_000, version=7)
    ElectionLoss.objects.create(
        topic_id=orders.topic_id,
        topic_name="orders",
        partition=2,
        leader_epoch=7,
        leader=2,
        isr=[1],
        committed=10_240,
        start_offset=10_000,
        told_at=timezone.now() - timedelta(minutes=3),
        cuts=[[1, 10_250, 10_000, 10_245, 25_600]],
        reason="unclean election asked for by olga",
        version=7,
    )


def faults_of(page: Page, what: str) -> list[str]:
    """What is wrong with the page that is open, in each look."""
    found = []
    for width, theme in LOOKS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        content, window = width_of(page)
        wide = [f"{content} pixels wide"] if content > window else []
        told = [one for check in (BASICS, FITS, CONTRAST, REFERENCES) for one in page.evaluate(check)]
        found += [f"{what} {width} {theme}: {one}" for one in wide + told]
    return found


def unseen_focus(page: Page, what: str) -> list[str]:
    """The controls at which the focus cannot be seen, from the first to the last that Tab leads to."""
    page.locator("body").evaluate("e => { e.tabIndex = -1; e.focus(); }")
    controls = page.locator("a[href], button, input, select, textarea, summary").count()
    found = set()
    for _ in range(min(controls, 60)):
        page.keyboard.press("Tab")
        unseen = page.evaluate(UNSEEN_FOCUS)
        if unseen is None:
            break
        if unseen:
            found.add(f"{what}: {unseen}")
    return sorted(found)


def send(page: Page, address: str, why: str) -> None:
    """Send the form there with this reason."""
    page.goto(urljoin(page.url, address))
    page.get_by_label("Reason, for the journal").fill(why)
    page.locator("main form .btn").first.click()
    page.wait_for_load_state()


def test_every_page_that_a_link_leads_to_fits(open_page: Open) -> None:
    add_everything()
    page, faults = open_page("/"), []
    cordon = "/cluster/ask/cordon-broker/broker/1/"
    send(page, cordon, " ")
    expect(page.get_by_role("alert")).to_contain_text("say why")
    faults += faults_of(page, "a refused form")
    send(page, cordon, "for the audit")
    of_the_cluster = urlsplit(page.url).path
    group = ConsumerGroup.objects.get(name="departures")
    of_a_group = asking.ask(group, Asked(Rebalance()), "mira", "for the audit").id
    visited: set[str] = set()
    waiting = deque(["/", "/cluster/requests/", of_the_cluster, f"/requests/{of_a_group}/"])
    while waiting:
        address = waiting.popleft()
        kind = kind_of(address)
        if kind is None or kind in visited:
            continue
        visited.add(kind)
        answer = page.goto(urljoin(page.url, address))
        text = page.locator("main").inner_text()
        # No controller is there: what it is asked about before a form is shown has no answer.
        assert answer is not None and (answer.status == 200 or "The controller does not answer" in text), (
            address
        )
        faults += faults_of(page, address) + unseen_focus(page, address)
        links = page.eval_on_selector_all("a[href]", "all => all.map((one) => one.getAttribute('href'))")
        waiting += [urlsplit(urljoin(page.url, link)).path for link in links]
    assert faults == []
    assert {"request", "cluster-request", "plan", "quotas", "ask-loss acknowledge-loss"} <= visited
    assert len(visited) > 40, "the pages lead to each other"
