"""An operator resets offsets in the browser: sees what would change, does it, and takes it back."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, expect
from pytest_django import DjangoDbBlocker

from access.grants import Role
from access.service import create_user
from tests.browser.conftest import PATIENCE_MS
from tests.conftest import pointed_at
from tests.integration.conftest import plane, shared_plane
from tests.integration.coordinator.control_plane import ControlPlane
from tests.integration.coordinator.operators import add_group
from tests.integration.sdk.brokers import LoneBroker, topic_id
from tests.integration.web.served import WebProcess

__all__ = ["plane", "shared_plane"]


@pytest.fixture
def group(plane: ControlPlane, tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """A group that committed 0, 10, 20, 30 for a topic whose partition 1 holds 15 records."""
    name = f"orders-{uuid4().hex[:8]}"
    lone = LoneBroker(tmp_path, **{name: 4})
    lone.start()
    try:
        lone.produce(name, [b"x"] * 15, partition=1)
        plane.add_broker(1, lone.address)
        plane.add_topic(name, 4, topic_id(name))
        led = "UPDATE partition SET leader = 1, leader_epoch = 1, isr = '{1}' WHERE topic_id = %s"
        plane.execute(led, topic_id(name))
        made = f"departures-{uuid4().hex[:8]}"
        add_group(plane, made, name)
        with django_db_blocker.unblock(), pointed_at(plane.database_url):
            yield made
    finally:
        lone.stop()


@pytest.fixture
def web(plane: ControlPlane, tmp_path: Path, group: str) -> Iterator[WebProcess]:
    """A web process beside the node that owns the group."""
    database = {name: plane.database_url for name in ("DATABASE_URL", "DATABASE_DIRECT_URL")}
    process = WebProcess(tmp_path / "web.log", MUSTER_CLUSTER_NAME="aero-prod", **database)
    yield process
    process.stop()


def test_the_flow_from_the_group_to_the_outcome_and_back(
    browser: Browser, web: WebProcess, plane: ControlPlane, group: str
) -> None:
    client = Client()
    client.force_login(create_user("mira", Role.OPERATOR, None))
    name = settings.SESSION_COOKIE_NAME
    context = browser.new_context(viewport={"width": 390, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": web.url}])
    page = context.new_page()
    page.goto(f"{web.url}/groups/{group}/")
    page.get_by_role("link", name="Reset offsets").click()
    for choice, field in (("shift", "By, for"), ("group", "Group, for"), ("time", "Time, for")):
        page.locator("select[name=to]").select_option(choice)
        expect(page.locator("[data-for]:visible")).to_have_count(1)
        expect(page.get_by_label(field)).to_be_visible()
    page.locator("select[name=to]").select_option("latest")
    expect(page.locator("[data-for]:visible")).to_have_count(0)
    page.get_by_label("Reason").fill("we begin anew")
    page.get_by_role("button", name="Show what would change").click()
    page.get_by_text("Would be done.").wait_for()
    expect(page.locator("#would-be tbody tr")).to_have_count(4)
    assert plane.committed(group)[1] == 10
    page.get_by_role("button", name="Reset offsets").click()
    page.get_by_text("Done.").wait_for()
    assert plane.committed(group) == {0: 0, 1: 15, 2: 0, 3: 0}
    page.get_by_role("link", name="Undo").click()
    page.get_by_label("Reason").fill("it was the wrong group")
    page.get_by_role("button", name="Show what would change").click()
    page.get_by_role("button", name="Undo a reset").click()
    page.get_by_text("Done.").wait_for()
    assert plane.committed(group) == {0: 0, 1: 10, 2: 20, 3: 30}
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    context.close()
