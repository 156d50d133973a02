"""An operator changes topics, brokers and quotas in the browser, and elects where nobody comes back."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.cimpl import NewPartitions
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, Page, expect

from access.grants import Role
from access.service import create_user
from standalone.redis import Redis
from tests.browser.conftest import PATIENCE_MS
from tests.integration.replication.cluster import Cluster
from tests.integration.web.served import WebProcess


@pytest.fixture
def cluster(tmp_path: Path, fresh_database: str, redis_server: Redis) -> Iterator[Cluster]:
    """A node and three brokers."""
    made = Cluster(tmp_path / "cluster", fresh_database, redis_server)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def web(cluster: Cluster, tmp_path: Path) -> Iterator[WebProcess]:
    """A web process beside them."""
    database = {name: cluster.database_url for name in ("DATABASE_URL", "DATABASE_DIRECT_URL")}
    process = WebProcess(tmp_path / "web.log", MUSTER_CLUSTER_NAME="aero-prod", **database)
    yield process
    process.stop()


@pytest.fixture
def page(browser: Browser, web: WebProcess) -> Iterator[Page]:
    """An operator on a telephone."""
    client = Client()
    client.force_login(create_user("mira", Role.OPERATOR, None))
    name = settings.SESSION_COOKIE_NAME
    context = browser.new_context(viewport={"width": 390, "height": 900}, base_url=web.url)
    context.set_default_timeout(PATIENCE_MS)
    context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": web.url}])
    opened = context.new_page()
    yield opened
    context.close()


def test_a_topic_from_its_creation_to_its_end(page: Page, cluster: Cluster) -> None:
    page.goto("/topics/")
    page.get_by_role("link", name="Create a topic").click()
    fill(page, "topic", "gates")
    fill(page, "partitions", "4")
    fill(page, "replication_factor", "9")
    show(page)
    page.get_by_text("Ask for fewer replicas").wait_for()
    fill(page, "replication_factor", "3")
    fill(page, "configs", "min.insync.replicas=2")
    show(page)
    expect(page.locator("#would-be tbody").first.locator("tr")).to_have_count(4)
    assert fits(page) and not cluster.partitions("gates")
    go(page, "Create a topic", "a topic for gates")
    assert len(cluster.partitions("gates")) == 4
    cluster.await_true(lambda: -1 not in cluster.leaders("gates").values(), "all lead")
    page.get_by_role("link", name="To gates").click()

    page.get_by_role("link", name="Add partitions").click()
    fill(page, "partitions", "4")
    show(page)
    page.get_by_text("Ask for more partitions than there are").wait_for()
    fill(page, "partitions", "6")
    show(page)
    page.get_by_text("Records with a key may go to another partition").wait_for()
    # What was shown is done, and nothing else.
    fill(page, "partitions", "9")
    fill(page, "reason", "more gates")
    page.get_by_role("button", name="Add partitions").click()
    page.get_by_text("the form says something else than before").wait_for()
    fill(page, "partitions", "6")
    show(page)
    go(page, "Add partitions", "more gates")
    assert len(cluster.partitions("gates")) == 6

    read_by_a_group(cluster, "gates")
    cluster.await_true(
        lambda: cluster.query("SELECT 1 FROM partition_progress WHERE high_watermark = 3"), "it is told"
    )
    page.get_by_role("link", name="To gates").click()
    page.get_by_role("link", name="Delete the topic").click()
    page.get_by_text("up to 3 records").wait_for()
    page.get_by_role("link", name="departures").wait_for()
    fill(page, "reason", "retired")
    page.get_by_role("button", name="Delete the topic").click()
    page.get_by_text("type gates as it is").wait_for()
    assert fits(page) and cluster.partitions("gates")
    fill(page, "confirm", "gates")
    go(page, "Delete the topic", "retired")
    assert not cluster.partitions("gates")
    [[asked]] = cluster.query(
        "SELECT summary -> 'asked' -> 0 FROM journal WHERE summary ->> 'topics_deleted' = '[\"gates\"]'"
    )
    assert isinstance(asked, dict) and (asked["by"], asked["why"]) == ("mira", "retired")


def test_what_changed_meanwhile_is_left_alone(page: Page, cluster: Cluster) -> None:
    cluster.create_topic("gates", 1)
    page.goto("/cluster/ask/delete-topic/topic/gates/")
    fill(page, "confirm", "gates")
    fill(page, "reason", "retired")
    admin = cluster.admin()
    admin.create_partitions([NewPartitions("gates", 2)])["gates"].result(30)
    page.get_by_role("button", name="Delete the topic").click()
    page.get_by_text("Look at it as it is now, then ask again").wait_for()
    assert len(cluster.partitions("gates")) == 2


def test_a_form_about_what_another_operator_changed_leads_to_it_as_it_is_now(
    page: Page, cluster: Cluster
) -> None:
    """It offered to be shown again, and each time it was refused again: it was about what had been."""
    cluster.create_topic("gates", 1)
    other = page.context.new_page()
    for one, value in ((page, "3600000"), (other, "7200000")):
        one.goto("/cluster/ask/change-configs/topic/gates/")
        fill(one, "config.retention.ms", value)
        show(one)
        fill(one, "reason", "as agreed")
    go(page, "Change configs", "an hour is enough")
    other.get_by_role("button", name="Change configs").click()
    expect(other.get_by_role("alert")).to_contain_text("Look at it as it is now, then ask again")
    expect(other.get_by_role("button", name="Show what would come of it")).to_have_count(0)
    other.get_by_role("link", name="Look again").click()
    expect(other.locator("[name='config.retention.ms']")).to_have_value("3600000")
    expect(other.locator("[name=reason]")).to_have_value("as agreed")
    fill(other, "config.retention.ms", "7200000")
    show(other)
    go(other, "Change configs", "two are better")
    assert cluster.query("SELECT configs ->> 'retention.ms' FROM topic") == [("7200000",)]


def test_configs_and_replicas_of_a_topic_are_changed(page: Page, cluster: Cluster) -> None:
    cluster.create_topic("gates", 2, replicas=2)
    page.goto("/topics/gates/")
    page.get_by_role("link", name="Change configs").click()
    fill(page, "config.retention.ms", "soon")
    show(page)
    page.get_by_text("is no value of retention.ms").wait_for()
    fill(page, "config.retention.ms", "3600000")
    show(page)
    expect(page.locator("#would-be tbody tr")).to_have_count(1)
    go(page, "Change configs", "an hour is enough")
    assert cluster.query("SELECT configs ->> 'retention.ms' FROM topic") == [("3600000",)]

    [held] = [row["assigned"] for number, row in cluster.partitions("gates").items() if number == 0]
    [spare] = {1, 2, 3} - set(held)
    page.goto("/topics/gates/0/")
    page.get_by_role("link", name="Move the partition").click()
    fill(page, "replicas", f"{spare}, {held[1]}")
    show(page)
    page.get_by_text("Reading and writing go on meanwhile").wait_for()
    assert fits(page)
    go(page, "Move the partition", "broker is to be replaced")
    moved = [spare, held[1]]
    cluster.await_true(lambda: cluster.partitions("gates")[0]["assigned"] == moved, "it moved")

    cluster.brokers[held[0]].kill()
    cluster.await_true(lambda: held[0] not in cluster.live_brokers(), "it is missed")
    page.goto("/cluster/ask/move-partition/partition/gates/0/")
    fill(page, "replicas", f"{held[0]}, {held[1]}")
    show(page)
    page.get_by_text("waits until it is back").wait_for()
    go(page, "Move the partition", "back again")
    page.goto("/reassignments/")
    page.get_by_role("link", name="Cancel the move of gates-0").click()
    page.get_by_text("The partition stays where it was").wait_for()
    go(page, "Cancel the move", "it was the wrong one")
    assert cluster.partitions("gates")[0]["assigned"] == moved


def test_a_broker_is_cordoned_and_taken_out(page: Page, cluster: Cluster) -> None:
    page.goto("/brokers/3/")
    page.get_by_role("link", name="Cordon").click()
    page.get_by_text("No new replicas are placed on it").wait_for()
    go(page, "Cordon the broker", "it is old")
    cluster.create_topic("gates", 4, replicas=2)
    assert all(3 not in row["assigned"] for row in cluster.partitions("gates").values())
    page.goto("/brokers/3/")
    page.get_by_role("link", name="Take it out of the cluster").click()
    page.get_by_text("Its process runs: this will be refused").wait_for()
    cluster.brokers[3].kill()
    cluster.await_true(lambda: 3 not in cluster.live_brokers(), "it is missed")
    page.goto("/cluster/ask/unregister-broker/broker/3/")
    fill(page, "confirm", "broker 3")
    go(page, "Take it out of the cluster", "it is old")
    assert cluster.query("SELECT broker_id FROM broker ORDER BY 1") == [(1,), (2,)]


def test_a_client_is_bounded_seen_to_wait_and_freed(page: Page, cluster: Cluster) -> None:
    cluster.create_topic("gates", 1, replicas=1)
    page.goto("/quotas/")
    page.get_by_text("No quota is set").wait_for()
    page.get_by_role("link", name="Set a quota").click()
    fill(page, "client_id", "till")
    show(page)
    page.get_by_text("A quota has a rate").wait_for()
    fill(page, "producer_byte_rate", "0.05")
    show(page)
    page.get_by_text("so 150 kB at all 3").wait_for()
    go(page, "Set a quota", "it starves the others")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "till", "log_level": 0})
    for _ in range(40):
        producer.produce("gates", bytes(10_000))
        producer.flush(0.05)
    page.goto("/quotas/")
    page.locator("#waiting").get_by_text("till").wait_for()
    assert fits(page)
    leader = cluster.partitions("gates")[0]["leader"]
    page.goto(f"/brokers/{leader}/")
    page.locator("#throttled").get_by_text("till").wait_for()
    assert fits(page)
    page.goto("/quotas/")
    page.get_by_role("link", name="Change").click()
    fill(page, "producer_byte_rate", "5")
    show(page)
    page.get_by_text("instead of 50.0 kB").wait_for()
    go(page, "Change the quota", "it behaves by now")
    assert cluster.query("SELECT client_id, producer_byte_rate FROM client_quota") == [("till", 5_000_000)]
    page.get_by_role("link", name="All quotas").click()
    page.get_by_role("link", name="Take away").click()
    page.get_by_text("Nothing bounds them any more").wait_for()
    go(page, "Take the quota away", "all is well")
    assert cluster.query("SELECT count(*) FROM client_quota") == [(0,)]
    assert producer.flush(30) == 0


def test_where_nobody_comes_back_any_live_replica_is_elected(page: Page, cluster: Cluster) -> None:
    """The one that led lies dead with records that the other has not; how many is said before."""
    cluster.create_topic("gates", 1, replicas=2)
    first, second = cluster.partitions("gates")[0]["assigned"]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    produce(producer, 3)
    cluster.await_true(lambda: cluster.everybody_in_sync("gates"), "both are in sync")
    cluster.brokers[second].kill()
    cluster.await_true(lambda: cluster.partitions("gates")[0]["isr"] == [first], "one is left")
    produce(producer, 5)
    committed = "SELECT max(high_watermark) FROM partition_progress"
    cluster.await_true(lambda: cluster.query(committed) == [(8,)], "its leader has said so")
    cluster.brokers[first].kill()
    cluster.await_true(lambda: cluster.partitions("gates")[0]["leader"] == -1, "nobody leads")
    cluster.start_broker(second)
    page.goto("/topics/gates/0/")
    page.locator("#holders").get_by_text(f"Broker {second}").wait_for()
    holds = "SELECT end_offset FROM log_note WHERE state = 'leaderless'"
    cluster.await_true(lambda: cluster.query(holds) == [(3,)], "the other says what it has")
    page.get_by_role("link", name="Elect any live replica").click()
    page.get_by_text("At least 5 committed records are lost").wait_for()
    page.get_by_text(f"Broker {first} held everything").wait_for()
    assert fits(page)
    fill(page, "confirm", "gates-0")
    go(page, "Elect any live replica", "its machine burnt down")
    assert cluster.partitions("gates")[0]["leader"] == second
    page.goto("/topics/gates/0/")
    page.get_by_text("committed records may be lost").wait_for()
    produce(producer, 1)


def produce(producer: Producer, records: int) -> None:
    for _ in range(records):
        producer.produce("gates", b"x", partition=0)
    assert producer.flush(60) == 0


def fill(page: Page, name: str, value: str) -> None:
    page.locator(f'[name="{name}"]').fill(value)


def show(page: Page) -> None:
    page.get_by_role("button", name="Show what would come of it").click()


def go(page: Page, name: str, reason: str) -> None:
    fill(page, "reason", reason)
    page.get_by_role("button", name=name).click()
    page.get_by_text("Done.").wait_for()
    assert fits(page)


def fits(page: Page) -> Any:
    """Nothing scrolls sideways; with PICTURES a picture is kept."""
    if os.environ.get("PICTURES"):
        number = len(list(Path(os.environ["PICTURES"]).glob("*.png")))
        page.screenshot(path=f"{os.environ['PICTURES']}/{number:02}.png", full_page=True)
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def read_by_a_group(cluster: Cluster, topic: str) -> None:
    """Three records, and a group that committed one of them."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for _ in range(3):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "departures", "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()
