"""This room tests pages in Chromium: both widths, both themes, live, cut off, by keyboard."""

import os
import re
import signal
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import Browser, Page, expect

from controller.models import Partition, Topic
from groups.models import CommittedOffset, ConsumerGroup
from runtime import wake
from tests.browser.conftest import PATIENCE_MS, Open
from tests.browser.made_fonts import made_fonts
from tests.integration.web import cast, classic_cast
from tests.integration.web.served import WebProcess

pytestmark = pytest.mark.browser

PAGES = {"overview": "/", "groups": "/groups/", "group": "/groups/departures/", "cluster": "/cluster/"}
PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "group.png"
LARGEST_PICTURE_BYTES = 200_000

# What every page must have, in the words of WCAG: names for controls and pictures, one h1, heads of tables.
BASICS = """() => {
  const found = [], name = (e) => (e.getAttribute('aria-label') || e.title || e.textContent || '').trim();
  const seen = (e) => e.checkVisibility();
  if (document.querySelectorAll('h1').length !== 1) found.push('not one h1');
  if (!document.documentElement.lang) found.push('no language');
  if (!document.querySelector('main')) found.push('no main');
  for (const e of document.querySelectorAll('a[href], button'))
    if (seen(e) && !name(e)) found.push(e.outerHTML);
  for (const e of document.querySelectorAll('input:not([type=hidden]), select'))
    if (seen(e) && !e.labels?.length && !e.getAttribute('aria-label')) found.push(e.outerHTML);
  for (const e of document.querySelectorAll('svg, i.mark[role=img], meter'))
    if (!e.closest('[aria-hidden=true]') && seen(e) && !name(e)) found.push(e.outerHTML);
  for (const e of document.querySelectorAll('table'))
    if (!e.querySelector('th[scope=col]')) found.push('no heads');
  for (const e of document.querySelectorAll('main section'))
    if (!e.getAttribute('aria-label') && !document.getElementById(e.getAttribute('aria-labelledby')))
      found.push('unnamed section ' + e.id);
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  ids.filter((id, at) => ids.indexOf(id) !== at).forEach((id) => found.push('doubled id ' + id));
  return found;
}"""

CONTRAST = """() => {
  const linear = (v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
  const parts = (c) => c.match(/[\\d.]+/g).map(Number);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = parts(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > .99) return c.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const bad = new Set();
  for (const e of document.querySelectorAll('main *, .bar *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || e.matches('.cut, .brief');
    if (!own || !e.checkVisibility() || e.closest('.vh, .cut > span, [aria-disabled]')) continue;
    const a = light(parts(getComputedStyle(e).color)), b = light(ground(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const what = e.textContent.trim().slice(0, 30);
    if (ratio < 7) bad.add(`${ratio.toFixed(1)} ${e.tagName}.${e.className} ${what}`);
  }
  return [...bad];
}"""


# Targets of 24 pixels, no number cut off or over its neighbour, no heading that skips a level.
FITS = """() => {
  const found = [], box = (e) => e.getBoundingClientRect();
  const what = (e) => `${e.tagName}.${e.className} ${e.textContent.trim().slice(0, 24)}`;
  const seen = (e) => e.checkVisibility() && box(e).width > 0;
  const controls = ':is(main, .bar) a[href], :is(main, .bar, .foot) button, main :is(input, .toggle, .check)';
  for (const e of document.querySelectorAll(controls)) {
    if (!seen(e) || e.closest('.vh, .skip') || e.matches('label:is(.toggle, .check) input')) continue;
    const inText = getComputedStyle(e).display === 'inline' && e.closest('p, dd, li > div');
    if (!inText && Math.min(box(e).height, box(e).width) < 23.9) found.push('small: ' + what(e));
  }
  const whole = 'td.num, td[data-live]:not(.wrap), td:has(> .btn), .board span, .below td, td.turn';
  for (const e of document.querySelectorAll(whole))
    if (seen(e) && e.scrollWidth > e.clientWidth + 1) found.push('cut: ' + what(e));
  let level = 0;
  for (const e of document.querySelectorAll('main :is(h1, h2, h3, h4)')) {
    if (+e.tagName[1] > level + 1) found.push('order: ' + what(e));
    level = +e.tagName[1];
  }
  return found;
}"""


HIDDEN = "Object.defineProperty(document, 'hidden', {{ value: {}, configurable: true }})"


def live(page: Page) -> None:
    """Wait until the page says that it is live."""
    expect(page.locator(".live")).to_have_attribute("data-state", "on", timeout=PATIENCE_MS)
    expect(page.locator(".live")).to_have_text(re.compile("^Live"))


SIZES = [(1440, "light"), (1440, "dark"), (1024, "light"), (768, "light"), (390, "light"), (390, "dark")]
OWN, WIDER, OTHER = "the font of this machine", "a wider font", "Arial's metrics"
"""Which fonts a machine has is not ours to say: the layout must hold with any."""

WIDEN = "() => { document.documentElement.style.letterSpacing = '.035em'; }"
USE_OTHER_FONTS = """async (made) => {
  const style = document.documentElement.style;
  style.letterSpacing = '';
  for (const [kind, weight, font] of made) {
    const bytes = Uint8Array.from(atob(font), (one) => one.charCodeAt(0));
    document.fonts.add(await new FontFace('made ' + kind, bytes, { weight }).load());
    style.setProperty('--' + kind, `"made ${kind}"`);
  }
  await document.fonts.ready;
}"""


def use_other_fonts(page: Page) -> None:
    """Draw everything in fonts of another family."""
    made = [(kind, weight, b64encode(font).decode()) for kind, weight, font in made_fonts()]
    page.evaluate(USE_OTHER_FONTS, made)
    assert page.evaluate("getComputedStyle(document.body).fontFamily") == '"made sans"'


def looks(page: Page) -> Iterator[str]:
    """The page at each width, in each theme and font, one after the other, without loading it again."""
    for font in (OWN, WIDER, OTHER):
        if font == WIDER:
            page.evaluate(WIDEN)
        elif font == OTHER:
            use_other_fonts(page)
        for width, theme in SIZES:
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            yield f"{page.url} {width} {theme} {font}"


def width_of(page: Page) -> tuple[int, int]:
    """How wide the page's content is, and how wide the window."""
    measured = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    return measured[0], measured[1]


def test_pages_fit_and_are_readable(open_page: Open) -> None:
    cast.one_night()
    classic_cast.parcels(cast.add_topic("parcel-scans", 6, [(1, 2)]))
    for address in (*PAGES.values(), "/groups/parcels/"):
        page = open_page(address)
        live(page)
        assert "| aero-prod | Muster" in page.title()
        for look in looks(page):
            content, window = width_of(page)
            assert content <= window, look
            assert page.evaluate(BASICS) == [], look
            assert page.evaluate(FITS) == [], look
            assert page.evaluate(CONTRAST) == [], look
        page.context.close()


PAGES_OF_THE_CLUSTER = (
    *("/topics/", "/topics/orders/", "/topics/orders/0/", "/brokers/3/", "/reassignments/"),
    "/topics/orders/?as_of=2100-01-01T00:00:00",
)


def test_pages_of_topics_brokers_and_moves_fit(open_page: Open) -> None:
    cast.one_night(groups=1)
    orders = Topic.objects.get(name="orders")
    cast.move(orders, 0, (5, 2, 3))
    cast.move(orders, 1, (1, 5, 6), phase="Cancelled", reason="cancelled by ola")
    for address in PAGES_OF_THE_CLUSTER:
        page = open_page(address)
        if "as_of" not in address:
            live(page)
        for width, theme in ((1440, "light"), (390, "dark")):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            for font in (OWN, OTHER):
                if font == OTHER:
                    use_other_fonts(page)
                look = f"{address} {width} {theme} {font}"
                content, window = width_of(page)
                assert content <= window, look
                for check in (BASICS, FITS, CONTRAST):
                    assert page.evaluate(check) == [], look
        page.emulate_media(media="print")
        controls = page.locator("#actions, .consequences, .foot form")
        shown = controls.evaluate_all("all => all.map((e) => e.checkVisibility())")
        assert not any(shown), f"{address} has controls on paper"
        page.context.close()


def test_the_sign_in_page_fits_and_works(open_page: Open, web: WebProcess) -> None:
    for width in (1440, 390):
        page = open_page("/groups/", width=width, signed_in=False)
        expect(page.get_by_role("heading", name="Sign in to aero-prod Production")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(BASICS) == []
        page.get_by_label("Name").fill("mira")
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("Name or password is wrong.")


def test_a_change_appears_without_reload(open_page: Open) -> None:
    topic = cast.add_topic("flights", 6, [(1, 2, 3)])
    group = cast.departures(topic)
    page = open_page("/groups/departures/")
    live(page)
    page.evaluate("window.loadedOnce = true")
    title = page.title()
    cast.commit(group, topic, 5, 8_434_690)
    cast.reach(topic, 5, 8_434_691)
    expect(page.locator("#partitions tfoot")).to_contain_text("4\u202f547")
    ConsumerGroup.objects.update(phase="PreparingRebalance", version=418)
    wake.notify("group", "departures")
    expect(page.locator("#head .big-state")).to_contain_text("PreparingRebalance")
    cast.add_member(group, "dora")
    ConsumerGroup.objects.update(phase="Stable", generation=44, version=419)
    wake.notify("group", "departures")
    expect(page.locator("#members h2")).to_have_text("4 members")
    expect(page.locator("#head .big-state")).to_contain_text("generation 44")
    assert page.evaluate("window.loadedOnce") is True
    assert page.title() == title


def test_a_value_that_changed_is_marked_where_it_stands(open_page: Open) -> None:
    topic = cast.add_topic("flights", 6, [(1, 2, 3)])
    group = cast.departures(topic)
    page = open_page("/groups/departures/")
    live(page)
    before = page.locator("#partitions tbody tr").nth(4).bounding_box()
    cast.commit(group, topic, 4, 8_424_000)
    cell = page.locator("#partitions tbody tr").nth(4).locator("td").nth(1)
    expect(cell).to_have_text("8\u202f424\u202f000")
    expect(cell).to_have_class("num mid changed")
    assert page.locator("#partitions tbody tr").nth(4).bounding_box() == before


def test_rows_do_not_move_under_the_eye(open_page: Open) -> None:
    topic = cast.add_topic("orders", 1, [(1,)], high_watermark=1_000)
    for name, offset in (("ann", 900), ("ben", 500), ("cleo", 100)):
        cast.commit(cast.add_group(name), topic, 0, offset)
    page = open_page("/groups/")
    live(page)
    names = page.locator("#list tbody th a")
    assert names.all_inner_texts() == ["cleo", "ben", "ann"]
    CommittedOffset.objects.filter(group="cleo").update(offset=999, version=9)
    expect(page.locator("[data-key=cleo] td").nth(2)).to_have_text("1")
    expect(page.get_by_role("button", name="sort again")).to_be_visible()
    assert names.all_inner_texts() == ["cleo", "ben", "ann"]
    page.get_by_role("button", name="sort again").click()
    expect(names.first).to_have_text("ben")


def test_a_page_that_is_cut_off_says_so_keeps_its_values_and_comes_back(
    open_page: Open, web: WebProcess
) -> None:
    cast.departures(cast.add_topic("flights", 6, [(1, 2, 3)]))
    page = open_page("/groups/departures/")
    live(page)
    web.process.send_signal(signal.SIGSTOP)
    try:
        strip = page.locator("[data-notlive]")
        expect(strip).to_be_visible(timeout=PATIENCE_MS)
        expect(strip).to_contain_text("Not connected, as of")
        expect(page.locator(".live")).to_contain_text("Not connected")
        assert page.locator("html").get_attribute("data-stale") is not None
        assert "32\u202f004" in page.locator("#partitions tfoot").inner_text()
    finally:
        web.process.send_signal(signal.SIGCONT)
    live(page)
    expect(strip).to_be_hidden()


def test_pausing_holds_the_page_and_going_on_reads_it(open_page: Open) -> None:
    cast.add_group("departures")
    page = open_page("/groups/departures/")
    live(page)
    page.locator(".live").click()
    expect(page.locator(".live")).to_contain_text("Paused")
    ConsumerGroup.objects.update(generation=9, version=500)
    page.wait_for_timeout(1_500)
    expect(page.locator("#head .big-state")).to_contain_text("generation 1")
    page.locator(".live").click()
    expect(page.locator("#head .big-state")).to_contain_text("generation 9")


def test_a_paused_page_that_is_connected_again_says_when_it_reads_what_it_missed(open_page: Open) -> None:
    """It said that it was being read, which a paused page does not do."""
    cast.add_group("departures")
    page = open_page("/groups/departures/")
    live(page)
    page.locator(".live").click()
    page.evaluate("() => { window.later = connect; connect = () => {}; socket.close(); }")
    page.wait_for_function("() => socket === undefined")
    ConsumerGroup.objects.update(generation=9, version=500)
    page.evaluate("later()")
    expect(page.locator(".toasts")).to_have_text(
        "Connected again. What changed meanwhile is read when you go on."
    )
    expect(page.locator("#head .big-state")).to_contain_text("generation 1")


def test_the_filter_works_with_and_without_script(open_page: Open, web: WebProcess, browser: Browser) -> None:
    cast.one_night()
    page = open_page("/groups/")
    page.get_by_label("Group or topic contains").press_sequentially("depart")
    expect(page.locator("#list tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile("q=depart"))
    plain = browser.new_context(java_script_enabled=False, storage_state=page.context.storage_state())
    bare = plain.new_page()
    bare.goto(f"{web.url}/groups/")
    # Nobody updates it, and it says so: nothing was cut off.
    expect(bare.get_by_role("link", name=re.compile(r"As of \d\d:\d\d:\d\d\. Read again"))).to_be_visible()
    expect(bare.locator(".live")).to_be_hidden()
    bare.get_by_label("Group or topic contains").fill("depart")
    bare.get_by_role("button", name="Filter").click()
    expect(bare.locator("#list tbody tr")).to_have_count(1)
    plain.close()


def test_everything_is_reached_by_keyboard(open_page: Open) -> None:
    cast.one_night(groups=3)
    page = open_page("/groups/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent") == "gate-display"
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/groups/departures/$"))
    live(page)
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("b")
    expect(page).to_have_url(re.compile(r"/cluster/$"))


def test_the_theme_is_kept(open_page: Open) -> None:
    page = open_page("/")
    button = page.locator("[data-theme-next]")
    for theme in ("light", "dark"):
        button.click()
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_the_picture_of_the_readme_is_the_group_page(open_page: Open, tmp_path: Path) -> None:
    """Written to docs/pictures only if asked for, so that a test run leaves the checkout as it was."""
    cast.one_night()
    page = open_page("/groups/departures/", width=1240)
    live(page)
    last = page.locator("#members").bounding_box()
    assert last is not None
    shown = {"x": 0.0, "y": 0.0, "width": 1240.0, "height": last["y"] + last["height"] + 16}
    taken = page.screenshot(full_page=True, clip=shown)  # type: ignore[arg-type]
    assert 20_000 < len(taken) < LARGEST_PICTURE_BYTES
    target = PICTURE if os.environ.get("WRITE_PICTURES") else tmp_path / "group.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(taken)


def test_a_page_is_live_only_when_the_server_has_spoken(
    open_page: Open, web: WebProcess, session: dict[str, Any]
) -> None:
    """The socket is refused: a page that says Live until the third second of silence would lie."""
    cast.add_group("departures")
    page = open_page("/login/", signed_in=False)
    page.context.add_init_script(
        "window.WebSocket = class extends EventTarget { constructor() { super(); this.readyState = 0; }"
        " close() { this.readyState = 3; this.onclose?.({ code: 1006 }); } };"
        "window.states = []; const see = () => states.push(document.querySelector('.live')?.textContent);"
        "new MutationObserver(see).observe(document, { subtree: true, childList: true });"
    )
    page.context.add_cookies([session])  # type: ignore[list-item]
    page.goto(f"{web.url}/groups/")
    expect(page.locator(".live")).to_contain_text("Not connected", timeout=PATIENCE_MS)
    assert not [state for state in page.evaluate("states") if state and state.startswith("Live")]
    # A connection that never says anything is given up, and another is tried.
    expect(page.locator("[data-again]")).to_contain_text("Connecting again", timeout=PATIENCE_MS)


def test_what_is_typed_and_focused_survives_a_change_of_the_part_around_it(open_page: Open) -> None:
    cast.add_broker(1)
    topic = cast.add_topic("orders", 1, [(1,)])
    page = open_page("/cluster/?show=all&q=nothing")
    live(page)
    expect(page.locator("#partitions")).to_contain_text("No partition matches")
    field = page.locator("#partitions [type=search]")
    field.evaluate("(e) => { e.focus(); e.value = 'typing'; }")
    Topic.objects.filter(pk=topic.pk).update(name="nothing-else")
    Partition.objects.update(version=90_000)
    expect(page.locator("#partitions table.matrix")).to_be_visible()
    assert page.evaluate("document.activeElement.value") == "typing"


def test_a_table_that_holds_the_focus_is_changed_when_it_is_left(open_page: Open) -> None:
    """The same is true under the pointer, whose place a test cannot hold as surely."""
    topic = cast.add_topic("flights", 6, [(1, 2, 3)])
    group = cast.departures(topic)
    page = open_page("/")
    live(page)
    rows = page.locator("#rebalances tbody tr")
    expect(rows).to_have_count(4)
    rows.first.locator("a").focus()
    moves = [("ann", "dora", (0,))]
    cast.tell_a_rebalance(
        group, topic, cast.ago(seconds=1), 44, cast.came("dora"), moves, preparing_ms=9, completing_ms=9
    )
    cast.add_group("arrivals")
    expect(page.locator("#groups-title")).to_have_text("2 groups")
    expect(rows).to_have_count(4)
    rows.first.locator("a").blur()
    expect(rows).to_have_count(5)


def test_a_group_that_is_deleted_is_said_to_be_gone_and_one_that_comes_is_counted(open_page: Open) -> None:
    for name in ("ann", "ben"):
        cast.add_group(name)
    page, listed = open_page("/groups/ann/"), open_page("/groups/")
    live(page)
    live(listed)
    ConsumerGroup.objects.filter(name="ann").delete()
    expect(page.locator(".live")).to_have_text("Gone")
    expect(page.get_by_role("status")).to_contain_text("It is gone")
    expect(page.locator("h1")).to_have_text("ann")
    expect(listed.locator("[data-key=ann]")).to_have_attribute("data-gone", "")
    cast.add_group("zoe")
    expect(listed.get_by_role("button", name="2 rows have changed places")).to_be_visible()


def test_nothing_of_a_page_stays_in_the_browser(open_page: Open) -> None:
    cast.one_night(groups=3)
    page = open_page("/groups/")
    page.get_by_label("Group or topic contains").press_sequentially("depart")
    expect(page.locator("#list tbody tr")).to_have_count(1)
    page.go_back()
    expect(page.locator("#list tbody tr")).to_have_count(5)
    assert page.evaluate("Object.keys(localStorage)") == []
    assert "<" not in page.evaluate("JSON.stringify(sessionStorage)")


def test_a_filter_after_the_session_ended_leads_to_the_door_and_a_failure_keeps_the_list(
    open_page: Open,
) -> None:
    cast.one_night(groups=3)
    page = open_page("/groups/")
    live(page)
    page.route("**/groups/?q=*", lambda route: route.fulfill(status=503, body="away"))
    page.get_by_label("Group or topic contains").press_sequentially("x")
    expect(page.get_by_role("status")).to_contain_text("The list could not be read")
    expect(page.locator("#list tbody tr")).to_have_count(5)
    page.unroute("**/groups/?q=*")
    page.locator(".live").click()
    page.get_by_label("Group or topic contains").focus()
    Session.objects.all().delete()
    # Not by its label: the live socket, which looks each ten seconds, may lead to the door first.
    page.keyboard.press("y")
    expect(page.get_by_role("heading", name="Sign in to aero-prod")).to_be_visible()


def test_a_page_that_is_looked_at_again_after_its_session_ended_leads_to_the_door(open_page: Open) -> None:
    cast.one_night(groups=1)
    page = open_page("/groups/")
    live(page)
    # Hidden for a minute it gives its socket up, and takes none because the machine has its network back:
    # a socket is use of the session.
    page.evaluate(HIDDEN.format("true"))
    page.evaluate(
        "new Promise((done) => { socket.addEventListener('close', () => done()); socket.close(); })"
    )
    page.evaluate("dispatchEvent(new Event('online'))")
    assert page.evaluate("socket === undefined")
    Session.objects.all().delete()
    page.evaluate(HIDDEN.format("false"))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_role("heading", name="Sign in to aero-prod")).to_be_visible()


def test_on_a_phone_a_group_has_the_line_that_its_lag_leaves(open_page: Open) -> None:
    """Names that many groups begin with are told apart by what comes after."""
    for name in ("warehouse-loader-north", "warehouse-loader-south"):
        cast.add_group(name)
    page = open_page("/groups/", width=390)
    for link in page.locator("#list tbody th a").all():
        shown, whole = link.evaluate("(e) => [e.closest('th').clientWidth, e.scrollWidth]")
        assert shown >= whole
