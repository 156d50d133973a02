"""An operator does everything from a command line, on a real cluster: topics, offsets, brokers, plans."""

import json
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from muster.cli.failures import ExitCode
from tests.integration.cli.conftest import Operated, Said

pytestmark = pytest.mark.timeout(600)
WHY = ("--reason", "as it was agreed")
SURE = (*WHY, "--yes")


def topic_of(operated: Operated, *words: object, partitions: int = 4, replicas: int = 2) -> str:
    """The name of a topic of this test alone, which is led."""
    name = f"orders-{uuid4().hex[:8]}"
    sizes = () if "--assign" in words else ("-p", partitions, "-r", replicas)
    operated.muster.done("topics", "create", name, *sizes, *words, "--wait", *WHY)
    return name


def committed(operated: Operated, topic: str, *, records: int = 10, offset: int = 7) -> str:
    """A group without members that has committed this of partition 0."""
    group = f"departures/{uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": operated.cluster.bootstrap, "log_level": 0})
    for _ in range(records):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": operated.cluster.bootstrap, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()
    return group


def offset_of(operated: Operated, group: str, topic: str) -> int:
    """What the group has committed of partition 0."""
    [row] = operated.muster.done("groups", "offsets", group, "--topic", topic, "-o", "json").json
    offset: int = row["offset"]
    return offset


def refused(said: Said, code: ExitCode, *words: str) -> None:
    """It ended with the code, and said this."""
    assert said.code == code, said
    assert all(word in said.err for word in words), said.err


def test_a_topic_from_its_creation_to_its_end(operated: Operated) -> None:
    muster = operated.muster
    tried = muster.done("topics", "create", "gates", "-p", 3, "-r", 3, "--dry-run", "-o", "json").json
    assert tried["verdict"] == "would be done"
    refused(muster("topics", "show", "gates"), ExitCode.NOT_FOUND)
    made = muster.done(
        *("topics", "create", "gates", "-p", 3, "-r", 3, "-c", "retention.ms=3600000", "--wait"), *WHY
    )
    assert "3 of 3 partitions have a leader." in made.err and "Done; request" in made.err
    again = muster("topics", "create", "gates", *WHY)
    refused(again, ExitCode.CONFLICT, "TOPIC_ALREADY_EXISTS", "Choose another name")
    refused(muster("topics", "create", "roofs", "-r", 9, *WHY), ExitCode.CONFLICT, "Ask for fewer replicas")
    refused(
        muster("topics", "create", "roofs", "-c", "no.such=1", *WHY),
        ExitCode.REFUSED,
        "o.such is not a config",
    )
    refused(muster("topics", "create", "roofs"), ExitCode.USAGE, "--reason")

    muster.done("topics", "add-partitions", "gates", 5, *WHY)
    assert muster.done("topics", "show", "gates", "-o", "json").json["partitions"] == 5
    refused(muster("topics", "remove-partitions", "gates", 4, *WHY), ExitCode.USAGE, "--yes")
    muster.done("topics", "remove-partitions", "gates", 4, *SURE)
    rows = muster.done("topics", "partitions", "--topic", "gates", "-o", "json").json
    assert [row["partition"] for row in rows] == [0, 1, 2, 3]
    one = muster.done("topics", "partitions", "--topic", "gates", "--partition", 2, "-o", "json").json
    assert one[0]["partition"] == 2
    muster.done("topics", "elect", "--topic", "gates:0-1", *WHY)
    some = muster("topics", "elect", "--topic", "gates:0-9", *WHY)
    refused(some, ExitCode.REFUSED, "gates-4: There is no such partition.", "And 3 more.")
    assert "leads" not in some.err, "that it needs no election is no refusal"
    muster.done("topics", "elect", "--all-topics", *WHY)
    assert "gates-3" in muster.done("topics", "partitions", "-o", "name").out.split()

    refused(muster("topics", "delete", "gates", *WHY), ExitCode.USAGE, "Nobody can be asked here")
    stale = muster("topics", "delete", "gates", *SURE, "--if-match", f'"{uuid4()}-1"')
    assert stale.code in (ExitCode.CONFLICT, ExitCode.NOT_FOUND)
    muster.done("topics", "delete", "gates", *SURE)
    refused(muster("topics", "show", "gates"), ExitCode.NOT_FOUND)


def test_what_a_key_did_is_not_done_twice(operated: Operated) -> None:
    muster = operated.muster
    name, key = f"once-{uuid4().hex[:8]}", uuid4().hex
    asked = ("topics", "create", name, "-p", 1, *WHY, "--idempotency-key", key, "-o", "json")
    first, second = muster.done(*asked).json, muster.done(*asked).json
    assert first["request"] == second["request"] and first["idempotency_key"] == key
    other = muster("topics", "create", f"{name}-b", *WHY, "--idempotency-key", key)
    refused(other, ExitCode.REFUSED, "Idempotency-Key was given to another request")


def test_offsets_are_reset_shown_first_and_put_back(operated: Operated) -> None:
    muster = operated.muster
    topic = topic_of(operated)
    group = committed(operated, topic)
    refused(muster("groups", "reset-offsets", group, "--to-earliest", *SURE), ExitCode.USAGE, "--all-topics")
    refused(muster("groups", "reset-offsets", group, "--all-topics", *SURE), ExitCode.USAGE, "where to")
    tried = muster.done("groups", "reset-offsets", group, "--topic", topic, "--to-earliest", "--dry-run")
    assert [line.split() for line in tried.out.splitlines()][1] == [topic, "0", "7", "0", "-7", "-"]
    assert "Would be done" in tried.err and offset_of(operated, group, topic) == 7
    unsure = muster("groups", "reset-offsets", group, "--topic", topic, "--to-earliest", *WHY)
    refused(unsure, ExitCode.USAGE, "--yes")

    for words, offset in (
        (("--to-earliest",), 0),
        (("--to-latest",), 10),
        (("--shift-by", "-4"), 6),
        (("--to-offset", "3"), 3),
        (("--by-duration", "1h"), 0),
        (("--to-datetime", "2020-01-01T00:00:00Z"), 0),
    ):
        done = muster.done("groups", "reset-offsets", group, "--topic", f"{topic}:0", *words, *SURE, "--wait")
        assert offset_of(operated, group, topic) == offset, (words, done)
    other = committed(operated, topic, records=1, offset=5)
    last = muster.done(
        *("groups", "reset-offsets", group, "--all-topics", "--from-group", other, "-o", "json"), *SURE
    ).json
    assert offset_of(operated, group, topic) == 5 and last["idempotency_key"]
    muster.done("groups", "undo-reset", group, last["request"], *SURE)
    assert offset_of(operated, group, topic) == 0

    asked = muster.done("groups", "requests", group, "-o", "json").json
    assert [one["kind"] for one in asked[:2]] == ["undo_reset", "reset_offsets"]
    assert muster.done("requests", "show", last["request"], "-o", "json").json["verdict"] == "done"
    alone = muster("groups", "rebalance", group, *WHY)
    refused(alone, ExitCode.NOT_FOUND, "no members", "UNKNOWN_MEMBER_ID")
    muster.done("groups", "delete-offsets", group, "--topic", topic, *SURE)
    muster.done("groups", "delete", other, *SURE)
    refused(muster("groups", "show", other), ExitCode.NOT_FOUND)


def test_what_changed_meanwhile_is_left_alone(operated: Operated) -> None:
    topic = topic_of(operated)
    group = committed(operated, topic)
    seen = operated.muster.done("groups", "show", group, "-o", "json").json
    stale = f"{seen['generation']}-{seen['version'] + 1}"
    said = operated.muster("groups", "delete", group, *SURE, "--if-match", stale)
    refused(said, ExitCode.CONFLICT, "Nothing was changed. Look at it again")
    assert offset_of(operated, group, topic) == 7


def test_configs_are_listed_and_changed(operated: Operated) -> None:
    muster = operated.muster
    topic = topic_of(operated, "-c", "cleanup.policy=delete")
    listed = muster.done("configs", "list", "--topic", topic, "-o", "name").out.split()
    assert listed == ["cleanup.policy"]
    tried = muster.done("configs", "change", "--topic", topic, "-s", "retention.ms=1000", "--dry-run")
    assert "Would be done" in tried.err
    changes = ("-s", "retention.ms=60000", "--append", "cleanup.policy=compact")
    muster.done("configs", "change", "--topic", topic, *changes, *WHY)
    rows = muster.done("configs", "list", "--topic", topic, "-o", "json").json
    assert {row["name"]: row["value"] for row in rows} == {
        "cleanup.policy": "delete,compact",
        "retention.ms": "60000",
    }
    more = ("--unset", "retention.ms", "--subtract", "cleanup.policy=compact")
    muster.done("configs", "change", "--topic", topic, *more, *WHY)
    assert muster.done("configs", "list", "cleanup.policy", "--topic", topic, "-o", "name").out == "delete\n"
    assert "min.insync.replicas" in muster.done("configs", "list", "--cluster", "--all").out
    muster.done("configs", "change", "--broker", 2, "-s", "log.retention.ms=86400000", *WHY)
    assert "86400000" in muster.done("configs", "list", "--broker", 2).out
    soon = muster("configs", "change", "--topic", topic, "-s", "retention.ms=soon", *WHY)
    refused(soon, ExitCode.REFUSED, "retention.ms")
    refused(muster("configs", "list"), ExitCode.USAGE, "--topic NAME")
    refused(
        muster("configs", "list", "retention", "--topic", topic), ExitCode.NOT_FOUND, "no config retention"
    )


def test_quotas_are_set_and_taken_away(operated: Operated) -> None:
    muster = operated.muster
    muster.done("quotas", "set", "--user", "olga", "--producer", "10MB", *WHY)
    muster.done("quotas", "set", "--user", "olga", "--consumer", "5MB", *WHY)
    muster.done("quotas", "set", "--client-id", "<default>", "--consumer", "1GB", *WHY)
    [row] = [one for one in muster.done("quotas", "list", "-o", "json").json if one["user"] == "olga"]
    assert (row["producer_byte_rate"], row["consumer_byte_rate"]) == (10_000_000, 5_000_000)
    assert "10.0 MB/s" in muster.done("quotas", "list").out
    named = muster.done("quotas", "list", "-o", "name").out.splitlines()
    assert {"users/olga", "clients/<default>"} <= set(named), "who has no user was called None"
    stale = muster("quotas", "delete", "--user", "olga", *WHY, "--if-match", "1")
    refused(stale, ExitCode.CONFLICT)
    refused(muster("quotas", "delete", "--user", "olgaa", *WHY), ExitCode.NOT_FOUND, "There is no such quota")
    muster.done("quotas", "delete", "--user", "olga", *WHY)
    assert "olga" not in muster.done("quotas", "list").out


def test_partitions_are_moved_as_a_file_of_kafka_says(operated: Operated) -> None:
    muster = operated.muster
    topic = topic_of(operated, "--assign", "1,2", "--assign", "2,3")
    file = muster.home / "moves.json"
    wanted = [
        {"topic": topic, "partition": 0, "replicas": [3, 2]},
        {"topic": topic, "partition": 1, "replicas": [1, 3], "log_dirs": ["any", "any"]},
    ]
    file.write_text(json.dumps({"version": 1, "partitions": wanted}), encoding="utf-8")
    said = muster.done("moves", "start", file, "--throttle", "50MB", "--wait", *WHY)
    assert "2 of 2 partitions move no more." in said.err
    rows = muster.done("topics", "partitions", "--topic", topic, "-o", "json").json
    assert [row["replicas"] for row in rows] == [[3, 2], [1, 3]]
    moves = muster.done("moves", "list", "--topic", topic, "-o", "json").json
    assert {one["phase"] for one in moves} == {"Done"}
    assert "Done" in muster.done("moves", "show", moves[0]["id"]).out
    over = muster("moves", "cancel", moves[0]["id"], *WHY)
    refused(over, ExitCode.CONFLICT, "Nothing moves this partition by now")
    file.write_text("{}", encoding="utf-8")
    refused(muster("moves", "start", file, *WHY), ExitCode.USAGE, "is no reassignment")


def test_a_broker_is_drained_by_a_plan_and_taken_out(operated: Operated) -> None:
    muster, cluster = operated.muster, operated.cluster
    topic = topic_of(operated, partitions=6)
    proposed = muster.done("plans", "propose", "drain", "--broker", 3, "--wait", "-o", "json", *WHY).json
    plan = proposed["plan"]
    assert proposed["phase"] == "Draft" and proposed["step_count"] > 0
    reviewed = muster.done("plans", "show", plan)
    assert f"Next: muster plans approve {plan}" in reviewed.err
    assert "Brokers" in reviewed.out and "Steps" in reviewed.out
    refused(muster("plans", "run", plan, *WHY), ExitCode.CONFLICT)
    steps = muster.done("plans", "steps", plan, "-o", "json").json
    assert len(steps) == proposed["step_count"]
    muster.done("plans", "throttle", plan, "200MB", *WHY)
    muster.done("plans", "approve", plan, *WHY)
    assert f"Next: muster plans run {plan}" in muster.done("plans", "show", plan).err
    ran = muster.done("plans", "run", plan, "--wait", *WHY)
    assert f"Plan {plan}: Done" in ran.err
    assert cluster.count(topic, "3 = ANY (assigned)") == 0
    undo = muster.done("plans", "undo", plan, "--wait", "-o", "json", *WHY).json
    assert undo["kind"] == "undo"
    muster.done("plans", "cancel", undo["plan"], *WHY)
    assert muster.done("plans", "list", "--phase", "Done", "-o", "name").out.split()[0] == plan

    topic_of(operated, "--assign", "1,2,3", "--assign", "1,2,3")
    topic_of(operated, "--assign", "3,1")
    wide = muster("brokers", "decommission", 3, *SURE)
    refused(wide, ExitCode.CONFLICT, "Broker 3 still holds 2 partitions")
    [name] = {row["topic"] for row in muster.done("topics", "partitions", "--replica", 3, "-o", "json").json}
    muster.done("topics", "delete", name, *SURE)
    muster.done("brokers", "uncordon", 3, *WHY)

    muster.done("brokers", "fill", 3, *SURE)
    assert muster.done("topics", "partitions", "--replica", 3).out != ""
    gone = muster.done("brokers", "decommission", 3, *SURE)
    assert "Stop its process" in gone.out and "cordoned" in gone.err
    assert muster.done("topics", "partitions", "--replica", 3).out == ""
    refused(muster("brokers", "remove", 3, *SURE), ExitCode.CONFLICT)
    cluster.end(3)
    cluster.await_true(lambda: 3 not in cluster.live_brokers(), "broker 3 is gone")
    assert "broker fenced" in muster("health").out
    muster.done("brokers", "decommission", 3, *SURE)
    assert muster.done("brokers", "list", "-o", "name").out.split() == ["1", "2"]


def test_a_broker_is_not_cordoned_for_somebody_who_cannot_be_asked(operated: Operated) -> None:
    muster = operated.muster
    topic_of(operated, "--assign", "2")
    before = muster.done("plans", "list", "-o", "name").out
    unsure = muster("brokers", "decommission", 2, *WHY)
    refused(unsure, ExitCode.USAGE, "Broker 2 is taken out of the cluster. Nobody can be asked here.")
    assert muster.done("brokers", "show", 2, "-o", "json").json["cordoned"] is False
    assert muster.done("plans", "list", "-o", "name").out == before


def test_a_broker_is_cordoned_and_shown(operated: Operated) -> None:
    muster = operated.muster
    muster.done("brokers", "cordon", 2, *WHY)
    assert muster.done("brokers", "show", 2, "-o", "json").json["cordoned"] is True
    assert "cordoned" in muster.done("status").out
    muster.done("brokers", "uncordon", 2, *WHY)
    shown = muster.done("brokers", "show", 2).out
    assert "live" in shown and "room on disk" in shown
    assert muster.done("brokers", "logs").out == ""
    refused(muster("brokers", "show", 77), ExitCode.NOT_FOUND, "no such broker")


def test_what_was_asked_and_what_became_true_is_told(operated: Operated) -> None:
    muster = operated.muster
    topic = topic_of(operated)
    listed = muster.done("requests", "list", "-o", "json").json
    assert listed[0]["kind"] == "CreateTopics" and listed[0]["principal"] == "mira"
    assert topic in muster.done("requests", "show", listed[0]["request"], "-o", "json").out
    refused(muster("requests", "show", str(uuid4())), ExitCode.NOT_FOUND)
    turns = muster.done("journal", "--lane", "controller", "--limit", 5, "-o", "json").json
    assert len(turns) == 5 and turns[0]["seq"] > turns[1]["seq"]
    assert "controller" in muster.done("journal", "--key", "cluster").out


def test_the_doctor_finds_nothing_and_says_what_is_wrong_elsewhere(operated: Operated) -> None:
    muster = operated.muster
    well = muster("doctor", "-o", "json")
    assert {row["step"]: row["state"] for row in well.json if row["step"] != "brokers"} == dict.fromkeys(
        ("cluster", "answer", "readiness", "clock", "token", "role", "version"), "well"
    )
    wrong = muster("doctor", "--token", "mst_nothing")
    refused(wrong, ExitCode.REFUSED, "token:")
    assert "create_token" in wrong.err
