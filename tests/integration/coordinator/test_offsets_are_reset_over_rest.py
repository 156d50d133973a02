"""Offsets are reset over REST: a worker asks the real leader, a real node decides, and it can be undone."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.integration.coordinator.control_plane import ControlPlane
from tests.integration.coordinator.operators import Operator, add_group
from tests.integration.sdk.brokers import LoneBroker, topic_id


@pytest.fixture
def broker(plane: ControlPlane, tmp_path: Path) -> Iterator[LoneBroker]:
    """A broker that leads the four partitions of one topic; partition 1 holds 15 records."""
    name = f"orders-{uuid4().hex[:8]}"
    lone = LoneBroker(tmp_path, **{name: 4})
    lone.start()
    try:
        lone.produce(name, [b"x"] * 15, partition=1)
        plane.add_broker(1, lone.address)
        plane.add_topic(name, 4, topic_id(name))
        plane.execute(
            "UPDATE partition SET leader = 1, leader_epoch = 1, isr = '{1}' WHERE topic_id = %s",
            topic_id(name),
        )
        yield lone
    finally:
        lone.stop()


@pytest.fixture
def olga(plane: ControlPlane, database: None, broker: LoneBroker, group: str) -> Operator:
    """An operator, and a group that committed 0, 10, 20, 30."""
    add_group(plane, group, broker.topic)
    return Operator(plane.token("olga", "operator"), group)


def test_offsets_are_tried_reset_and_put_back(plane: ControlPlane, olga: Operator) -> None:
    tried = olga.ask("reset_offsets", to="shift", by=-3, dry_run=True).json()
    assert "changes" in tried, tried
    told = [(one["partition"], one["before"], one["after"], bool(one["note"])) for one in tried["changes"]]
    # Only partition 1 holds records: what lies outside of a log is moved to its end.
    assert told == [(0, 0, 0, False), (1, 10, 7, False), (2, 20, 0, True), (3, 30, 0, True)], tried
    assert plane.committed(olga.group) == {0: 0, 1: 10, 2: 20, 3: 30}
    done = olga.ask("reset_offsets", to="shift", by=-3, match=olga.tag()).json()
    assert (done["verdict"], done["changes"]) == ("done", tried["changes"])
    assert plane.committed(olga.group) == {0: 0, 1: 7, 2: 0, 3: 0}
    back = olga.ask("undo_reset", request=done["request"]).json()
    assert back["verdict"] == "done", back
    assert plane.committed(olga.group) == {0: 0, 1: 10, 2: 20, 3: 30}
    assert olga.ask("undo_reset", request=done["request"]).status_code == 409


def test_the_ends_and_a_time_are_what_the_leader_says(olga: Operator, broker: LoneBroker) -> None:
    scope = [{"topic": broker.topic, "partitions": [1]}]

    def after(**to: object) -> int:
        answer = olga.ask("reset_offsets", dry_run=True, scope=scope, **to)  # type: ignore[arg-type]
        return int(answer.json()["changes"][0]["after"])

    assert after(to="latest") == 15
    assert after(to="earliest") == 0
    assert after(to="time", time="2020-01-01T00:00:00Z") == 0
    assert after(to="time", time="2100-01-01T00:00:00Z") == 15
    assert after(to="group", from_group=olga.group) == 10


def test_what_cannot_be_found_out_is_refused(plane: ControlPlane, olga: Operator, broker: LoneBroker) -> None:
    unknown = olga.ask("reset_offsets", to="latest", scope=[{"topic": broker.topic, "partitions": [9]}])
    assert (unknown.status_code, unknown.json()["detail"]) == (404, f"There is no {broker.topic}-9.")
    plane.execute("UPDATE partition SET leader = -1 WHERE topic_id = %s", topic_id(broker.topic))
    homeless = olga.ask("reset_offsets", to="latest")
    assert homeless.status_code == 503 and "nobody leads" in homeless.json()["detail"]
    assert olga.ask("reset_offsets", to="shift").status_code == 400
    assert olga.ask("reset_offsets", to="latest", offset=5).status_code == 400
    assert olga.ask("undo_reset", request=str(uuid4())).status_code == 404


def test_another_group_that_is_not_there_is_named(plane: ControlPlane, olga: Operator) -> None:
    """A slip in its name was told as a group that had committed nothing, partition by partition."""
    for name, dry_run in (("a slip", True), ("a slip", False), (f" {olga.group}", True)):
        answer = olga.ask("reset_offsets", to="group", from_group=name, dry_run=dry_run)
        assert (answer.status_code, answer.json()["detail"]) == (404, f"There is no group {name}.")
    assert plane.committed(olga.group) == {0: 0, 1: 10, 2: 20, 3: 30}
