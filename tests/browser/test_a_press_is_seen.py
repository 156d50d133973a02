"""A form whose answer takes seconds shows that its button was pressed, until the answer is there."""

import pytest
from playwright.sync_api import expect

from access.grants import Role
from access.service import make_login_link
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


# Nothing is sent: whether a press would be is known when its event has passed whoever heard it first.
PRESS_TWICE = """() => {
  const form = document.querySelector('form'), kept = [];
  form.addEventListener('submit', (event) => { kept.push(event.defaultPrevented); event.preventDefault(); });
  form.requestSubmit();
  form.requestSubmit();
  return [kept, form.querySelector('button').getAttribute('aria-busy')];
}"""


def test_a_link_that_is_pressed_twice_is_sent_once(open_page: Open) -> None:
    """The first press used it up, its answer was dropped for the second, and that one was refused."""
    secret, _ = make_login_link("mira", Role.OPERATOR)
    page = open_page(f"/login/once/{secret}/", signed_in=False)
    assert page.evaluate(PRESS_TWICE) == [[False, True], "true"]
    page.reload()
    page.get_by_role("button", name="Sign in as mira").click()
    expect(page.locator(".who")).to_have_text("mira")
    # Opened again, it is used up, but whoever opened it is in.
    page.goto(f"{page.url}login/once/{secret}/")
    expect(page.get_by_role("alert")).to_contain_text("You are signed in as mira: to the overview")
