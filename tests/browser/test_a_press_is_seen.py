"""A form whose answer takes seconds shows that its button was pressed, until the answer is there."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.integration.web import cast

pytestmark = pytest.mark.browser

# What is on its way is noted where the next page finds it.
NOTE_WHAT_IS_BUSY = """() => new MutationObserver((all) => all.forEach(({ target }) => {
  if (target.getAttribute('aria-busy') === 'true') sessionStorage.pressed = target.textContent;
})).observe(document.body, { subtree: true, attributeFilter: ['aria-busy'] })"""


def test_a_button_shows_that_it_was_pressed_until_the_answer_is_there(open_page: Open) -> None:
    """No controller runs here: the door waits for its answer for seconds."""
    cast.add_cluster()
    cast.add_broker(1)
    page = open_page("/cluster/ask/create-topic/")
    page.evaluate(NOTE_WHAT_IS_BUSY)
    page.locator("[name=topic]").fill("gates")
    page.get_by_role("button", name="Show what would come of it").click()
    expect(page.get_by_role("alert")).to_contain_text("The controller does not answer.")
    assert page.evaluate("sessionStorage.pressed") == "Show what would come of it"
    expect(page.locator("[aria-busy]")).to_have_count(0)
    page.go_back()
    expect(page.locator("[name=topic]")).to_be_visible()
    expect(page.locator("[aria-busy]")).to_have_count(0)
