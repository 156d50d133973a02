"""A value that changed is marked also for whoever asked for less motion, or sees in forced colours."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.test_pages_in_chromium import live
from tests.integration.web import cast

pytestmark = pytest.mark.browser

SETTINGS = {"less motion": {"reduced_motion": "reduce"}, "forced colours": {"forced_colors": "active"}}
MARKS = """cell => {
  const style = getComputedStyle(cell);
  return [style.boxShadow !== 'none', style.outlineStyle !== 'none'];
}"""
AGAIN = """cell => {
  cell.classList.remove('changed');
  void cell.offsetWidth;
  cell.classList.add('changed');
  cell.getAnimations().forEach((one) => { one.pause(); one.currentTime = 1000; });
}"""


@pytest.mark.parametrize("chosen", SETTINGS)
def test_a_change_is_marked(open_page: Open, chosen: str) -> None:
    """Nothing was, though rows change under the eye without a jump."""
    topic = cast.add_topic("flights", 6, [(1, 2, 3)])
    group = cast.departures(topic)
    page = open_page("/groups/departures/")
    page.emulate_media(**SETTINGS[chosen])  # type: ignore[arg-type]
    live(page)
    cell = page.locator("#partitions tbody tr").nth(4).locator("td").nth(1)
    assert not any(cell.evaluate(MARKS))
    cast.commit(group, topic, 4, 8_424_000)
    expect(cell).to_have_text("8\u202f424\u202f000")
    expect(cell).to_have_class("num mid changed")
    cell.evaluate(AGAIN)
    assert any(cell.evaluate(MARKS)), "its mark stays for seconds"
