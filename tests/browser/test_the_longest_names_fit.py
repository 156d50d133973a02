"""Names of 249 letters, groups of many partitions and of several topics fit every page that shows them."""

from urllib.parse import urljoin

import pytest
from playwright.sync_api import expect

from controller.models import ClientQuota
from tests.browser.conftest import Open
from tests.browser.test_pages_in_chromium import BASICS, FITS, live, looks, width_of
from tests.integration.web import cast
from tests.integration.web.test_plans_are_shown_and_steered import add_plan

pytestmark = pytest.mark.browser

# The names that findings show on more than one line.
PARTED = """() => {
  const found = [], words = /[a-z]+(-[a-z0-9]+)+/g;
  const all = document.createTreeWalker(document.querySelector('.watch'), NodeFilter.SHOW_TEXT);
  while (all.nextNode())
    for (const name of all.currentNode.data.matchAll(words)) {
      if (!/^(gate|flights|screen)-/.test(name[0])) continue;
      const range = document.createRange();
      range.setStart(all.currentNode, name.index);
      range.setEnd(all.currentNode, name.index + name[0].length);
      const lines = new Set([...range.getClientRects()].map((one) => Math.round(one.top)));
      if (lines.size > 1) found.push(name[0]);
    }
  return found;
}"""

# The pixels that an element lacks for what it holds, in fractions.
LACKS = """element => {
  const held = document.createRange();
  held.selectNodeContents(element);
  return held.getBoundingClientRect().width - element.getBoundingClientRect().width;
}"""


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


def test_no_name_in_a_finding_is_parted_at_its_hyphens(open_page: Open) -> None:
    """`gate-` at the end of a line and `events-3` on the next: what was copied by eye was another name."""
    cast.one_night(groups=1)
    page = open_page("/", width=390)
    live(page)
    assert "gate-events-3" in page.locator(".watch").inner_text()
    parted = {}
    for width in range(320, 460, 4):
        page.set_viewport_size({"width": width, "height": 900})
        if found := page.evaluate(PARTED):
            parted[width] = found
    assert parted == {}


def test_whose_groups_are_listed_is_told_where_there_is_little_room(open_page: Open) -> None:
    """A long topic made the page scroll sideways; a telephone did not say that other groups are left out."""
    topic = cast.add_topic("w" * 249, 1, [(1,)])
    cast.commit(cast.add_group("departures"), topic, 0, 1)
    page = open_page(f"/groups/?topic={topic.name}")
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert width_of(page)[0] <= width
        assert page.evaluate(FITS) == []
        expect(page.locator(".filter .kept")).to_be_visible()
    page.get_by_role("link", name="show all").click()
    expect(page.locator(".filter .kept")).to_have_count(0)


def test_on_a_telephone_the_name_of_a_group_is_cut_after_what_is_wrong_with_it(open_page: Open) -> None:
    """`dep…` stood beside `flights-5 stalled`, which is told above as well."""
    cast.one_night(groups=1)
    page = open_page("/", width=390)
    for name in ("departures", "gate-display"):
        shown = page.locator(f".roll [title={name}] b")
        # A hundredth of a pixel less than it needs, and a browser cuts off two letters.
        assert shown.evaluate(LACKS) < 0.01, name


# What of a name is drawn last, as far as there is room for it; the whole, where it goes on in a second line.
END_THAT_IS_SEEN = """cell => {
  const cut = cell.querySelector('.cut'), shown = getComputedStyle(cut, '::after');
  if (shown.whiteSpace !== 'pre') return cut.textContent;
  const pen = document.createElement('canvas').getContext('2d');
  pen.font = `${shown.fontWeight} ${shown.fontSize} ${shown.fontFamily}`;
  const fits = (text) => pen.measureText(text).width <= parseFloat(shown.width) + 1;
  if (cut.getBoundingClientRect().right > cell.getBoundingClientRect().right + 1) return '';
  let text = cut.dataset.end;
  while (text && !fits(text)) text = text.slice(1);
  return text;
}"""


# The letters of a name that are drawn, on one line or several: nothing of them is cut.
WHOLE_THAT_IS_SEEN = """cell => {
  const cut = cell.querySelector('.cut'), whole = cut.firstElementChild;
  const inside = (one) => one.scrollWidth <= one.clientWidth + 1 && one.scrollHeight <= one.clientHeight + 1;
  const shown = ['::before', '::after'].map((part) => getComputedStyle(cut, part));
  if (!inside(cell) || !inside(cut) || shown.some((part) => part.whiteSpace === 'pre')) return '';
  return cut.dataset.start + cut.dataset.end === whole.textContent ? whole.textContent : '';
}"""


@pytest.mark.parametrize("called", ["events.of-some-service-{}", "team.of-some-service-{}.events"])
def test_topics_that_are_called_alike_are_told_apart_on_a_phone(open_page: Open, called: str) -> None:
    """`te… 40.events` was ten topics; beside the moves of two of them stood a button that cancels one."""
    cast.one_night(groups=1)
    names = {called.format(f"{number:04d}0") for number in range(3)}
    for name in names:
        cast.move(cast.add_topic(name, 1, [(1, 2)]), 0, (4, 5))
    for address, number in (("/topics/?q=of-some", ""), ("/reassignments/", "-0")):
        page = open_page(address, width=390)
        rows = page.locator(".moves tbody th" if number else "#list tbody th")
        expect(rows).to_have_count(3)
        assert {row.evaluate(WHOLE_THAT_IS_SEEN) for row in rows.all()} == {name + number for name in names}
        expect(page.get_by_role("link", name=f"{min(names)}{number}", exact=True)).to_be_visible()
        content, window = width_of(page)
        assert content <= window


def test_partitions_of_topics_with_long_names_are_told_apart_found_and_read_aloud(open_page: Open) -> None:
    """Those of a Streams application were cut at their ends, where alone they differ."""
    cast.add_cluster()
    cast.add_broker(1)
    group = cast.add_group("app")
    cast.add_member(group, "ann")
    store = "app-KSTREAM-AGGREGATE-STATE-STORE-0000000003"
    for end in ("changelog", "repartition"):
        cast.own(group, cast.add_topic(f"{store}-{end}", 1, [(1,)]), "ann", [0])
    page = open_page("/groups/app/", width=390)
    live(page)
    rows = page.locator("#partitions tbody th")
    for look in looks(page):
        shown = [row.evaluate(END_THAT_IS_SEEN) for row in rows.all()]
        assert all(len(end) > 5 for end in shown) and len(set(shown)) == 2, (look, shown)
    for end in ("changelog", "repartition"):
        name = f"{store}-{end}-0"
        expect(page.get_by_role("rowheader", name=name, exact=True)).to_have_attribute("title", name)
        assert page.evaluate("name => window.find(name)", name), name


LINES = """cell => {
  const held = document.createRange();
  held.selectNodeContents(cell);
  return new Set([...held.getClientRects()].map((one) => Math.round(one.top))).size;
}"""


def test_a_note_on_a_partition_is_broken_between_its_words(open_page: Open) -> None:
    """As at 200 % of a common window: it gave way to the name, letter by letter."""
    cast.one_night(groups=1)
    page = open_page("/topics/flights/", width=720)
    note = page.get_by_role("cell", name="under-replicated", exact=True).first
    expect(note).to_be_visible()
    assert note.evaluate(LINES) <= 2


def test_on_a_telephone_rows_of_long_words_fit_and_are_told_apart(open_page: Open) -> None:
    """A path of a hundred letters and a client of 249 widened their pages; plans looked alike."""
    cast.add_cluster()
    for broker in (1, 2, 3):
        cast.add_broker(broker, fenced=broker == 3)
    orders = cast.add_topic("orders", 106, [(1, 2, 3)], out=[3])
    cast.note_log(2, orders, 3, "offline", f"Input/output error: /data/{'d' * 120}")
    ClientQuota.objects.create(
        user_name="u" * 249, client_id="c" * 249, consumer_byte_rate=5_000_000, version=8
    )
    add_plan("Running")
    page = open_page("/", width=390)
    for address in ("/quotas/", "/topics/orders/", "/brokers/2/", "/plans/", "/brokers/"):
        page.goto(urljoin(page.url, address))
        content, window = width_of(page)
        assert content <= window, address
        assert page.evaluate(FITS) == [], address
    # The mark stood on a line of its own above its word.
    fenced = page.locator("td.words .state", has_text="Fenced").bounding_box()
    assert fenced is not None and fenced["height"] < 30
    page.goto(urljoin(page.url, "/plans/"))
    expect(page.locator("#main tbody time")).to_be_visible()
