"""Whoever looked at what would come of it and goes back, or reads again, finds the form as it was left."""

import re

import pytest
from django.contrib.auth import get_user_model
from playwright.sync_api import expect

from controller.models import Topic
from tests.browser.conftest import Open
from tests.integration.web import cast

pytestmark = pytest.mark.browser


def set_password(name: str, password: str) -> None:
    person = get_user_model().objects.get(username=name)
    person.set_password(password)
    person.save()


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


LONG = "segment.ms=60000\n" * 500


@pytest.mark.parametrize(
    ("address", "look", "typed"),
    [
        (
            "/cluster/ask/create-topic/",
            "Show what would come of it",
            {"topic": "ga tes&", "configs": "retention.ms=1\nsegment.ms=60000", "reason": "R&D <1>"},
        ),
        ("/ask/reset_offsets/departures/", "Show what would change", {"scope": "orders:0,2", "reason": ""}),
    ],
)
def test_the_way_back_to_what_would_come_of_it(
    open_page: Open, address: str, look: str, typed: dict[str, str]
) -> None:
    """It was the browser's error page, ERR_CACHE_MISS; read again, the form was sent a second time."""
    cast.add_cluster()
    cast.add_group("departures", phase="Empty")
    page = open_page(address)
    for name, text in typed.items():
        page.locator(f"[name='{name}']").fill(text)
    with page.expect_navigation():
        page.get_by_role("button", name=look).click()
    with page.expect_navigation():
        page.get_by_role("link", name="Leave it").click()
    sent: list[str] = []
    page.on("request", lambda one: sent.append(one.method))
    for move in (page.go_back, page.reload):
        move()
        expect(page).to_have_url(re.compile(re.escape(address)))
        for name, text in typed.items():
            expect(page.locator(f"[name='{name}']")).to_have_value(text)
    assert set(sent) == {"GET"}


def test_the_way_back_leads_to_no_other_version(open_page: Open) -> None:
    """All fields are filled in: of the version since, they would undo what another operator changed."""
    cast.add_cluster()
    cast.add_broker(1)
    cast.add_topic("orders", 1, [(1,)])
    page = open_page("/cluster/ask/change-configs/topic/orders/")
    shown = page.locator("[name=version]").input_value()
    with page.expect_navigation():
        page.get_by_role("button", name="Show what would come of it").click()
    Topic.objects.filter(name="orders").update(
        metadata_version=int(shown) + 1, configs={"segment.ms": "60000"}
    )
    page.reload()
    expect(page.locator("[name=version]")).to_have_value(shown)


def test_what_no_address_bears_is_left_to_the_browser(open_page: Open) -> None:
    """Its page offers to send the form again, with all that was typed; an address without it would not."""
    cast.add_cluster()
    page = open_page("/cluster/ask/create-topic/")
    page.locator("[name=configs]").fill(LONG)
    with page.expect_navigation():
        page.get_by_role("button", name="Show what would come of it").click()
    expect(page).to_have_url(re.compile("/cluster/ask/create-topic/$"))
    expect(page.locator("[name=configs]")).to_have_value(LONG)


def test_the_way_back_past_a_wrong_password(open_page: Open) -> None:
    """Reloaded, the wrong password was sent once more, and counted; Back was the browser's error page."""
    page = open_page("/login/?next=/groups/", signed_in=False)
    page.get_by_label("Name").fill("mira")
    page.get_by_label("Password").fill("not the right one")
    with page.expect_navigation():
        page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("Name or password is wrong.")
    sent: list[str] = []
    page.on("request", lambda one: sent.append(one.method))
    page.reload()
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"/login/\?next=%2Fgroups%2F$"))
    page.goto("about:blank")
    page.go_back()
    expect(page.get_by_label("Password")).to_have_value("")
    assert set(sent) == {"GET"}


def test_the_way_back_past_what_the_door_kept(open_page: Open) -> None:
    """What was typed was kept behind the door, and lost to whoever went back once too far."""
    cast.add_cluster()
    page = open_page("/cluster/ask/create-topic/")
    page.locator("[name=topic]").fill("ga tes&")
    page.context.clear_cookies()
    with page.expect_navigation():
        page.get_by_role("button", name="Show what would come of it").click()
    set_password("mira", "departures at gate 7")
    page.get_by_label("Name").fill("mira")
    page.get_by_label("Password").fill("departures at gate 7")
    with page.expect_navigation():
        page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Show the form again")).to_be_visible()
    sent: list[str] = []
    page.on("request", lambda one: sent.append(one.method))
    page.goto("about:blank")
    page.go_back()
    expect(page.locator("[name=topic]")).to_have_value("ga tes&")
    assert set(sent) == {"GET"}
