"""An operator watches moves in the browser: how far, how fast, too slow for the producers, over."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer
from playwright.sync_api import Page

from tests.browser.test_an_operator_changes_topics import cluster, fill, fits, page, web
from tests.browser.test_an_operator_drains_a_broker import ask
from tests.integration.replication.cluster import Cluster

__all__ = ["cluster", "page", "web"]

MEGABYTES = 25
"""In each partition that moves."""

SLOW = "0.1"
"""Megabytes a second: moves take some minutes, however slow the browser is, and producers write more though
they are hardly given a processor."""


def looks(page: Page) -> None:
    """Nothing scrolls sideways, narrow or wide, in the light or in the dark."""
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for dark in (False, True):
            page.emulate_media(color_scheme="dark" if dark else "light")
            assert fits(page), f"{width} pixels"
    page.emulate_media(color_scheme="light")


def produce(cluster: Cluster, partitions: list[int]) -> None:
    # In small batches: the slow copies of large ones would begin late.
    configs = {"bootstrap.servers": cluster.bootstrap, "log_level": 0, "batch.num.messages": 1}
    producer = Producer(configs)
    for number in partitions:
        for _ in range(MEGABYTES * 10):
            producer.produce("gates", bytes(100_000), partition=number)
        assert producer.flush(60) == 0


@contextmanager
def producing(cluster: Cluster, number: int) -> Iterator[None]:
    """Half a megabyte a second to one partition."""
    producer, over = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0}), threading.Event()

    def run() -> None:
        while not over.wait(0.1):
            producer.produce("gates", bytes(60_000), partition=number)
            producer.poll(0)

    thread = threading.Thread(target=run, name="producing")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        producer.flush(60)


def drain(page: Page, throttle: str) -> None:
    """A plan that drains broker 3, reviewed and begun."""
    page.goto("/brokers/3/")
    page.get_by_role("link", name="Drain").click()
    fill(page, "reason", "it is to be replaced")
    fill(page, "throttle", throttle)
    page.get_by_role("button", name="Propose a plan").click()
    page.get_by_text("to be reviewed").first.wait_for()
    page.locator("#steps tbody tr").first.wait_for()
    looks(page)
    ask(page, "Approve", "Approve the plan", "looked through")
    ask(page, "Run", "Run the plan", "the night is quiet")


def test_a_plan_that_is_too_slow_is_seen_mended_and_ends(page: Page, cluster: Cluster) -> None:
    cluster.start_worker()
    cluster.create_topic("gates", 6, replicas=1)
    moved = [number for number, row in cluster.partitions("gates").items() if 3 in row["assigned"]]
    produce(cluster, moved)
    said = f"SELECT count(*) FROM partition_progress WHERE size_bytes > {MEGABYTES * 1_000_000}"
    cluster.await_true(lambda: cluster.query(said) == [(len(moved),)], "leaders say how large they are")
    drain(page, SLOW)
    progress = page.locator("#progress")
    # An end is told while it moves; the average stays.
    progress.get_by_text("about").wait_for()
    progress.get_by_text("B/s on average").wait_for()
    looks(page)
    page.goto("/reassignments/")
    page.get_by_text("copying, ").first.wait_for()
    page.locator("#run").get_by_text("to all brokers together").wait_for()
    looks(page)
    page.locator("#plans").get_by_role("link", name="Drain broker 3").click()
    ask(page, "Pause", "Pause the plan", "a quiet minute")
    page.locator("#head").get_by_text("paused").wait_for()
    ask(page, "Go on", "Run the plan", "it was quiet")
    with producing(cluster, moved[0]):
        page.get_by_text("It will never catch up.").first.wait_for()
        looks(page)
        page.goto("/reassignments/")
        page.get_by_text("Copies to new replicas never catch up").wait_for()
        looks(page)
        page.locator("#plans").get_by_role("link", name="Drain broker 3").click()
        page.locator("#actions").get_by_role("link", name="Change its rate").click()
        fill(page, "throttle", "100")
        page.get_by_role("button", name="Show what would come of it").click()
        page.locator("#would-be").wait_for()
        assert page.get_by_text("It will never catch up.").count() == 0
        fill(page, "reason", "producers write more")
        page.get_by_role("button", name="Change its rate").click()
        page.locator("#head").get_by_text("done").wait_for()
    looks(page)
    page.goto("/reassignments/")
    page.locator("#past").get_by_text("Done").first.wait_for()
    looks(page)
    copied = (
        f"SELECT count(*) FROM reassignment WHERE phase = 'Done' AND copied_bytes > {MEGABYTES * 1_000_000}"
    )
    assert cluster.query(copied) == [(len(moved),)], "history keeps what was copied"


def test_a_plan_is_cancelled_with_its_moves_and_says_how_far_they_were(page: Page, cluster: Cluster) -> None:
    cluster.start_worker()
    cluster.create_topic("gates", 6, replicas=1)
    moved = [number for number, row in cluster.partitions("gates").items() if 3 in row["assigned"]]
    produce(cluster, moved)
    drain(page, SLOW)
    page.locator("#progress").get_by_text("B/s on average").wait_for()
    # The plan's average is told from the first that copies on.
    held = "SELECT count(DISTINCT move_id) FROM arrival WHERE held_bytes > 0"
    cluster.await_true(lambda: cluster.query(held) == [(len(moved),)], "all have copied something")
    page.locator("#actions").get_by_role("link", name="Cancel").click()
    page.locator('[name="moves"]').check()
    page.get_by_role("button", name="Show what would come of it").click()
    page.get_by_text("under way go back to where they were").wait_for()
    looks(page)
    fill(page, "reason", "it stays")
    page.get_by_role("button", name="Cancel the plan").click()
    page.locator("#head").get_by_text("cancelled").wait_for()
    page.get_by_text("copies of those that were cancelled are erased").wait_for()
    assert page.get_by_role("link", name="Undo").count() == 0, "it has moved nothing"
    looks(page)
    assert cluster.count("gates", "3 = ANY (assigned)") == len(moved)
    assert cluster.query("SELECT count(*) FROM reassignment WHERE copied_bytes > 0") == [(len(moved),)]
    page.goto("/reassignments/")
    page.locator("#past").get_by_text("Cancelled").first.wait_for()
    looks(page)
