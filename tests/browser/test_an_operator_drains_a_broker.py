"""An operator drains a broker by a plan in the browser: reviews, approves, runs it, and takes it back."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.test_an_operator_changes_topics import cluster, fill, fits, page, web
from tests.integration.replication.cluster import Cluster

__all__ = ["cluster", "page", "web"]


@pytest.fixture
def drained(cluster: Cluster) -> Iterator[int]:
    """A broker with replicas of a topic, and a worker that computes plans."""
    cluster.start_worker()
    cluster.create_topic("gates", 6, replicas=2)
    yield 3


def test_a_broker_is_drained_and_filled_again(page: Page, cluster: Cluster, drained: int) -> None:
    page.goto(f"/brokers/{drained}/")
    page.get_by_role("link", name="Drain").click()
    fill(page, "reason", "it is to be replaced")
    fill(page, "throttle", "50")
    assert fits(page)
    page.get_by_role("button", name="Propose a plan").click()
    page.get_by_role("heading", name=f"Drain broker {drained}").wait_for()
    # The page lives: it says by itself that the plan was computed.
    page.get_by_text("to be reviewed").first.wait_for()
    page.locator("#steps tbody tr").first.wait_for()
    assert fits(page) and cluster.count("gates", f"{drained} = ANY (assigned)") == 4
    ask(page, "Approve", "Approve the plan", "looked through")
    ask(page, "Run", "Run the plan", "the night is quiet")
    cluster.await_true(
        lambda: cluster.count("gates", f"{drained} = ANY (assigned)") == 0, "nothing is left on it"
    )
    page.get_by_text("4 of 4").first.wait_for(state="attached")
    page.locator("#head").get_by_text("done").wait_for()
    assert fits(page)
    page.goto("/plans/")
    page.get_by_role("link", name=f"Drain broker {drained}").click()
    ask(page, "Undo", "Propose to undo it", "it was mended")
    page.get_by_role("heading", name="Undo a plan").wait_for()
    page.get_by_text("to be reviewed").first.wait_for()
    ask(page, "Cancel", "Cancel the plan", "it stays empty")
    page.locator("#head").get_by_text("cancelled").wait_for()
    assert cluster.count("gates", f"{drained} = ANY (assigned)") == 0


def ask(page: Page, link: str, button: str, reason: str) -> None:
    """From the plan's page by the form back to the plan's page."""
    page.locator("#actions").get_by_role("link", name=link).click()
    would_be, show = page.locator("#would-be"), page.get_by_role("button", name="Show what would come of it")
    # The form may not be there yet; only some have to be asked first.
    would_be.or_(show).first.wait_for()
    if show.is_visible():
        show.click()
    would_be.wait_for()
    assert fits(page)
    fill(page, "reason", reason)
    page.get_by_role("button", name=button).click()
    page.locator("#progress").wait_for()
