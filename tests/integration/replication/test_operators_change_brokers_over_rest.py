"""An operator cordons and unregisters brokers, elects leaders and sets quotas over REST."""

from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from tests.conftest import pointed_at
from tests.integration.replication.cluster import Cluster
from tests.integration.replication.rest_operator import Answer, Operator

RATES: dict[str, Any] = {"producer_byte_rate": 1_000_000, "consumer_byte_rate": None}


@pytest.fixture
def olga(cluster: Cluster, django_db_blocker: DjangoDbBlocker) -> Iterator[Operator]:
    """An operator; Django's rows are those of the cluster."""
    cluster.start()
    with django_db_blocker.unblock(), pointed_at(cluster.database_url):
        yield Operator(cluster.token("olga", "operator"))


def refused(answer: Answer) -> tuple[int, str]:
    return answer.status_code, answer.json()["kafka_error"]["name"]


def test_brokers_are_cordoned_and_unregistered_and_quotas_set(cluster: Cluster, olga: Operator) -> None:
    looked_at = olga.tag("brokers/3")
    assert olga.post("brokers/3", kind="cordon").status_code == 428
    done = olga.post("brokers/3", kind="cordon", match=looked_at, key="once")
    assert (done.status_code, done.json()["verdict"], done.json()["kind"]) == (200, "done", "CordonBroker")
    assert olga.post("brokers/3", kind="cordon", match=looked_at, key="once").json() == done.json()
    assert olga.get("brokers/3").json()["cordoned"] is True
    stale = olga.post("brokers/3", kind="uncordon", match=looked_at)
    assert refused(stale) == (412, "INVALID_UPDATE_VERSION")
    assert stale.json()["current"]["cordoned"] is True and stale["ETag"] == olga.tag("brokers/3")
    made = olga.post("topics", topic="gates", partitions=6, replication_factor=2)
    assert made.status_code == 201
    assert all(3 not in row["assigned"] for row in cluster.partitions("gates").values())
    (journal,) = cluster.query("SELECT summary FROM journal WHERE summary ? 'brokers_cordoned'")
    assert journal[0]["brokers_cordoned"] == [3]  # type: ignore[index]
    assert "brokers_registered" not in journal[0]  # type: ignore[operator]

    reason = "brokers/3?reason=it+is+old"
    assert refused(olga.delete(reason, match="*")) == (409, "DUPLICATE_BROKER_REGISTRATION")
    cluster.end(3)
    cluster.await_true(lambda: 3 not in cluster.live_brokers(), "it is missed")
    gone = olga.delete(reason, match=olga.tag("brokers/3"))
    assert (gone.status_code, gone.json()["reason"]) == (200, "it is old")
    assert olga.get("brokers/3").status_code == 404
    assert refused(olga.delete(reason, match="*")) == (404, "BROKER_ID_NOT_REGISTERED")

    elected(cluster, olga)
    quotas(cluster, olga)
    scoped(cluster)


def elected(cluster: Cluster, olga: Operator) -> None:
    cluster.await_true(lambda: -1 not in cluster.leaders("gates").values(), "all lead")

    def errors() -> set[str]:
        wanted = [{"topic": "gates", "partitions": [0, 1]}]
        asked = olga.post("partitions", election="preferred", topics=wanted)
        assert (asked.status_code, asked.json()["verdict"]) == (200, "done")
        return {one["error"] for one in asked.json()["results"]}

    cluster.await_true(lambda: errors() == {"ELECTION_NOT_NEEDED"}, "who stands first leads")
    assert olga.post("partitions", election="preferred").status_code == 200
    assert olga.post("partitions", election="unclean").status_code == 400
    unknown = olga.post("partitions", election="unclean", topics=[{"topic": "gates", "partitions": [77]}])
    assert refused(unknown) == (404, "UNKNOWN_TOPIC_OR_PARTITION")


def quotas(cluster: Cluster, olga: Operator) -> None:
    mine = "quotas?user=ann&client_id=%3Cdefault%3E"
    assert olga.put(mine, match='"0"', **RATES).status_code == 200
    (told,) = olga.get("quotas").json()["items"]
    assert (told["user"], told["client_id"]) == ("ann", "<default>")
    assert (told["producer_byte_rate"], told["consumer_byte_rate"]) == (1_000_000, None)
    stale = olga.put(mine, match='"0"', **RATES)
    assert refused(stale) == (412, "INVALID_UPDATE_VERSION")
    assert stale.json()["current"]["version"] == told["version"]
    known = f'"{told["version"]}"'
    assert olga.put(mine, match=known, producer_byte_rate=5, consumer_byte_rate=6).status_code == 200
    assert [one["consumer_byte_rate"] for one in olga.get("quotas").json()["items"]] == [6]
    assert olga.put(mine, match="*", producer_byte_rate=0, consumer_byte_rate=1).status_code == 400
    assert olga.put("quotas", match="*", **RATES).status_code == 400
    assert olga.delete(f"{mine}&reason=enough", match="*").status_code == 200
    assert olga.get("quotas").json()["items"] == []


def scoped(cluster: Cluster) -> None:
    """A token that is good for some topics changes neither brokers nor quotas."""
    printed = cluster.manage("create_token", "cleo", "--role", "operator", "--topic", "gates")
    bounded = Operator(printed.split()[-1])
    for answer in (
        bounded.post("brokers/1", kind="cordon", match="*"),
        bounded.post("partitions", election="preferred"),
        bounded.put("quotas?user=ann", match="*", **RATES),
    ):
        assert refused(answer) == (403, "CLUSTER_AUTHORIZATION_FAILED")
    wanted = [{"topic": "gates", "partitions": [0]}]
    assert bounded.post("partitions", election="preferred", topics=wanted).status_code == 200
    assert cluster.query("SELECT count(*) FROM broker WHERE cordoned") == [(0,)]
