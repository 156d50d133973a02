"""Operators read and change configs of topics, brokers and the cluster over REST; brokers obey."""

from typing import Any
from uuid import uuid4

import pytest

from tests.integration.replication.cluster import Cluster
from tests.integration.replication.rest_operator import Operator


def config(olga: Operator, path: str, name: str) -> dict[str, Any]:
    [found] = [one for one in olga.get(path).json()["configs"] if one["name"] == name]
    return dict(found)


def test_a_topics_configs_are_read_changed_and_acted_on(shared: Cluster, olga: Operator, topic: str) -> None:
    assert olga.post("topics", topic=topic, partitions=1).status_code == 201
    path = f"topics/{topic}/configs"
    before = olga.get(path)
    assert (before.status_code, before.json()["version"]) == (
        200,
        olga.get(f"topics/{topic}").json()["version"],
    )
    retention = config(olga, path, "retention.ms")
    assert (retention["value"], retention["source"], retention["type"]) == (
        "604800000",
        "DEFAULT_CONFIG",
        "LONG",
    )

    key = uuid4().hex
    changed = olga.patch(path, match=before["ETag"], key=key, set={"retention.ms": "7200000"})
    assert (changed.status_code, changed.json()["verdict"]) == (200, "done")
    assert changed["ETag"] == olga.tag(path) != before["ETag"]
    synonyms = config(olga, path, "retention.ms")["synonyms"]
    assert [(one["name"], one["value"], one["source"]) for one in synonyms] == [
        ("retention.ms", "7200000", "DYNAMIC_TOPIC_CONFIG"),
        ("log.retention.ms", "604800000", "DEFAULT_CONFIG"),
    ]
    assert olga.get(f"topics/{topic}").json()["configs"] == {"retention.ms": "7200000"}
    # Whoever did not hear it asks again, and hears the same.
    again = olga.patch(path, match=before["ETag"], key=key, set={"retention.ms": "7200000"})
    assert (again.status_code, again.json()) == (200, changed.json())
    # What was looked at before is not what is there.
    stale = olga.patch(path, match=before["ETag"], unset=["retention.ms"])
    assert (stale.status_code, stale["ETag"]) == (412, changed["ETag"])
    assert stale.json()["current"]["version"] == olga.get(path).json()["version"]

    listed = olga.patch(path, match="*", append={"cleanup.policy": "delete"}, unset=["retention.ms"])
    assert listed.status_code == 200
    assert olga.get(f"topics/{topic}").json()["configs"] == {"cleanup.policy": "delete"}


def test_the_journal_says_what_was_and_is_and_why(shared: Cluster, olga: Operator, topic: str) -> None:
    assert olga.post("topics", topic=topic, partitions=1).status_code == 201
    path = f"topics/{topic}/configs"
    made = olga.patch(path, match="*", reason="a day is enough", set={"retention.ms": "86400000"}).json()
    [[asked, configs]] = shared.query(
        "SELECT summary -> 'asked', summary -> 'configs' FROM journal WHERE summary -> 'asked' @> %s::jsonb",
        f'[{{"request": "{made["request"]}"}}]',
    )
    assert isinstance(asked, list) and isinstance(configs, list)
    assert (asked[0]["by"], asked[0]["what"], asked[0]["why"]) == ("olga", "AlterConfigs", "a day is enough")
    assert topic in configs[0] and "86400000" in configs[0]


def test_what_is_only_judged_changes_nothing(olga: Operator, topic: str) -> None:
    assert olga.post("topics", topic=topic, partitions=1).status_code == 201
    path = f"topics/{topic}/configs"
    before = olga.tag(path)
    tried = olga.patch(path, match=before, set={"retention.ms": "1"}, validate_only=True)
    assert (tried.status_code, tried.json()["verdict"], olga.tag(path)) == (200, "would be done", before)


def test_what_a_broker_and_the_cluster_set_holds_by_nearness(olga: Operator) -> None:
    everyone, one, two = "cluster/configs", "brokers/1/configs", "brokers/2/configs"
    assert olga.patch(everyone, match="*", set={"log.retention.bytes": "3000000"}).status_code == 200
    assert olga.patch(one, match=olga.tag(one), set={"log.retention.bytes": "1000000"}).status_code == 200
    told = [config(olga, path, "log.retention.bytes") for path in (one, two, everyone)]
    assert [(each["value"], each["source"]) for each in told] == [
        ("1000000", "DYNAMIC_BROKER_CONFIG"),
        ("3000000", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
        ("3000000", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
    ]
    segment = config(olga, two, "log.segment.bytes")
    assert (segment["value"], segment["source"]) == ("1048576", "STATIC_BROKER_CONFIG")
    assert config(olga, one, "min.insync.replicas")["read_only"]
    before = olga.tag(one)
    assert olga.patch(everyone, match=olga.tag(everyone), unset=["log.retention.bytes"]).status_code == 200
    assert olga.tag(one) != before, "what holds for the broker is made of what the cluster sets, too"
    assert olga.patch(one, match="*", unset=["log.retention.bytes"]).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("topics/{topic}/configs", {"set": {"no.such": "1"}}, 400, "INVALID_CONFIG"),
        ("topics/{topic}/configs", {"set": {"retention.ms": "soon"}}, 400, "INVALID_CONFIG"),
        ("topics/{topic}/configs", {"append": {"retention.ms": "1"}}, 400, "INVALID_CONFIG"),
        (
            "topics/{topic}/configs",
            {"set": {"retention.ms": "1"}, "unset": ["retention.ms"]},
            400,
            "INVALID_REQUEST",
        ),
        ("topics/{topic}/configs", {"set": {"a\0": "1"}}, 400, "INVALID_REQUEST"),
        ("topics/{topic}/configs", {}, 400, None),
        ("topics/{topic}/configs", {"put": {"retention.ms": "1"}}, 400, None),
        ("topics/{topic}/configs", {"set": {"retention.ms": "1"}, "reason": ""}, 400, None),
        ("topics/nothing/configs", {"set": {"retention.ms": "1"}}, 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("brokers/1/configs", {"set": {"min.insync.replicas": "2"}}, 400, "INVALID_CONFIG"),
        ("brokers/77/configs", {"set": {"log.retention.ms": "1"}}, 404, "BROKER_ID_NOT_REGISTERED"),
    ],
)
def test_what_cannot_be_is_refused(
    olga: Operator, topic: str, path: str, body: dict[str, Any], status: int, error: str | None
) -> None:
    if "{topic}" in path:
        olga.post("topics", topic=topic, partitions=1)
    refused = olga.patch(path.format(topic=topic), match="*", **body)
    assert refused.status_code == status, refused.json()
    if error is not None:
        assert refused.json()["kafka_error"]["name"] == error


def test_who_may_only_view_or_only_some_topics_changes_no_more(
    shared: Cluster, olga: Operator, topic: str
) -> None:
    olga.post("topics", topic=topic, partitions=1)
    vic = Operator(shared.token("vic", "viewer"))
    assert vic.get(f"topics/{topic}/configs").status_code == 200
    for path in (f"topics/{topic}/configs", "brokers/1/configs", "cluster/configs"):
        assert vic.patch(path, match="*", set={"x": "1"}).status_code == 403
        assert olga.patch(path, set={"x": "1"}).status_code == 428
        assert olga.patch(path, match='"what"', set={"x": "1"}).status_code == 400
