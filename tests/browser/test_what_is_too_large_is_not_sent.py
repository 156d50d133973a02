"""A form that is larger than the server takes stays open, with all that was typed."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.integration.web import cast

pytestmark = pytest.mark.browser


# As a form is sent each of these letters takes nine bytes, and each end of a line six.
@pytest.mark.parametrize("typed", [f"{'€' * 99}\n" * 1_300, "a=1\n" * 110_000], ids=["letters", "lines"])
def test_what_was_typed_into_a_form_that_is_too_large_is_not_lost(open_page: Open, typed: str) -> None:
    """It was sent, refused with 413, and the browser had nothing of it any more."""
    cast.add_cluster()
    cast.add_broker(1)
    page = open_page("/cluster/ask/create-topic/")
    page.get_by_label("Configs").evaluate("(field, text) => { field.value = text; }", typed)
    page.locator("[name=topic]").fill("orders")
    page.get_by_role("button", name="Show what would come of it").click()
    expect(page.locator(".toast")).to_contain_text("Nothing was sent: this form holds 1.")
    expect(page.locator("[aria-busy]")).to_have_count(0)
    assert page.get_by_label("Configs").input_value() == typed
    page.get_by_label("Configs").evaluate("field => { field.value = 'retention.ms=1'; }")
    with page.expect_navigation():
        page.get_by_role("button", name="Show what would come of it").click()
    expect(page.get_by_label("Configs")).to_have_value("retention.ms=1")
