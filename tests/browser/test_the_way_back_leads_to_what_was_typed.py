"""Whoever looked at what would come of it and goes back finds the form as it was left."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.integration.web import cast

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("address", "typed"),
    [
        ("create-topic/", {"topic": "gates", "partitions": "3", "configs": "retention.ms=1"}),
        ("change-configs/topic/orders/", {"config.retention.ms": "60000"}),
        ("set-quota/", {"user": "olga", "client_id": "loader", "producer_byte_rate": "5"}),
    ],
)
def test_the_way_back_from_what_would_come_of_it(
    open_page: Open, address: str, typed: dict[str, str]
) -> None:
    """A browser forgets what is typed into a field that says to offer nothing for it."""
    cast.add_cluster()
    cast.add_broker(1)
    cast.add_topic("orders", 1, [(1,)])
    page = open_page(f"/cluster/ask/{address}")
    for name, text in typed.items():
        page.locator(f"[name='{name}']").fill(text)
    first = page.locator("[name=key]").input_value()
    with page.expect_navigation():
        page.get_by_role("button", name="Show what would come of it").click()
    expect(page.locator("[name=key]")).to_have_value(first)
    page.go_back()
    expect(page.locator("[name=key]")).not_to_have_value(first)
    for name, text in typed.items():
        expect(page.locator(f"[name='{name}']")).to_have_value(text)
