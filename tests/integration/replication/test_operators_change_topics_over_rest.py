"""An operator creates, grows, moves and deletes topics over REST: a real controller decides, brokers obey."""

from uuid import uuid4

import pytest

from controller.topics_api import created_topics
from runtime import asking
from tests.integration.replication.cluster import Cluster
from tests.integration.replication.rest_operator import Operator


def test_a_topic_is_created_grows_and_is_deleted(shared: Cluster, olga: Operator, topic: str) -> None:
    made = olga.post("topics", topic=topic, partitions=4, replication_factor=3, configs={"retention.ms": "1"})
    assert (made.status_code, made["Location"], made.json()["verdict"]) == (
        201,
        f"/api/v1/topics/{topic}",
        "done",
    )
    told = olga.get(made["Location"])
    assert told["ETag"] == made["ETag"] and told.json()["configs"] == {"retention.ms": "1"}
    shared.await_true(
        lambda: shared.everybody_in_sync(topic) and -1 not in shared.leaders(topic).values(), "led"
    )

    grown = olga.post(f"topics/{topic}/partitions", match=made["ETag"], partitions=6)
    assert (grown.status_code, grown.json()["kind"]) == (200, "CreatePartitions")
    assert olga.get(f"topics/{topic}").json()["partitions"] == 6
    assert grown["ETag"] == olga.tag(f"topics/{topic}") != made["ETag"]

    # What was looked at before it grew is not what is there: nothing is deleted.
    stale = olga.delete(f"topics/{topic}?reason=retired", match=made["ETag"])
    assert (stale.status_code, stale["ETag"]) == (412, grown["ETag"])
    assert stale.json()["current"]["partitions"] == 6
    assert stale.json()["kafka_error"]["name"] == "INVALID_UPDATE_VERSION"

    key = uuid4().hex
    gone = olga.delete(f"topics/{topic}?reason=retired", match=grown["ETag"], key=key)
    assert (gone.status_code, gone.json()["reason"]) == (200, "retired")
    assert olga.get(f"topics/{topic}").status_code == 404
    # Whoever did not hear it asks again, and hears the same.
    again = olga.delete(f"topics/{topic}?reason=retired", match=grown["ETag"], key=key)
    assert (again.status_code, again.json()) == (200, gone.json())
    assert olga.delete(f"topics/{topic}?reason=retired", match="*").status_code == 404


def test_the_journal_says_who_and_why(shared: Cluster, olga: Operator, topic: str) -> None:
    made = olga.post("topics", topic=topic, reason="a topic for gates").json()
    [[asked]] = shared.query(
        "SELECT summary -> 'asked' FROM journal WHERE summary -> 'asked' @> %s::jsonb",
        f'[{{"request": "{made["request"]}"}}]',
    )
    assert isinstance(asked, list)
    assert asked[0] == {
        "by": "olga",
        "what": "CreateTopics",
        "why": "a topic for gates",
        "request": made["request"],
    }
    assert olga.get(f"controller/requests/{made['request']}").json() == made
    assert olga.get("controller/requests").json()["items"][0]["request"] == made["request"]


def test_what_is_only_judged_changes_nothing(olga: Operator, topic: str) -> None:
    tried = olga.post("topics", topic=topic, partitions=3, validate_only=True)
    assert (tried.status_code, tried.json()["verdict"]) == (200, "would be done")
    assert olga.get(f"topics/{topic}").status_code == 404
    refused = olga.post("topics", topic=topic, replication_factor=9, validate_only=True)
    assert refused.status_code == 409


def test_brokers_may_be_named(shared: Cluster, olga: Operator, topic: str) -> None:
    assert olga.post("topics", topic=topic, assignments=[[1, 2], [3, 1]]).status_code == 201
    match = olga.tag(f"topics/{topic}")
    assert (
        olga.post(f"topics/{topic}/partitions", match=match, partitions=3, assignments=[[2, 3]]).status_code
        == 200
    )
    told = olga.get(f"topics/{topic}/partitions?limit=2").json()
    assert [one["replicas"] for one in told["items"]] == [[1, 2], [3, 1]] and told["next"]
    assert [row["assigned"] for row in shared.partitions(topic).values()] == [[1, 2], [3, 1], [2, 3]]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"topic": "no/slash"}, 400, "INVALID_TOPIC_EXCEPTION"),
        ({"configs": {"no.such": "1"}}, 400, "INVALID_CONFIG"),
        ({"replication_factor": 9}, 409, "INVALID_REPLICATION_FACTOR"),
        ({"assignments": [[1, 1]]}, 409, "INVALID_REPLICA_ASSIGNMENT"),
        ({"assignments": [[77]]}, 409, "INVALID_REPLICA_ASSIGNMENT"),
        ({"assignments": [[1]], "partitions": 1}, 400, None),
        ({"partitions": 0}, 400, None),
        ({"partitions": "many"}, 400, None),
        ({"reason": ""}, 400, None),
        ({"force": True}, 400, None),
        ({"configs": {"retention.ms": None}}, 400, None),
    ],
)
def test_what_cannot_be_is_a_problem_with_kafkas_error(
    olga: Operator, topic: str, body: dict[str, object], status: int, error: str | None
) -> None:
    refused = olga.post("topics", **{"topic": topic, **body})  # type: ignore[arg-type]
    assert (refused.status_code, refused["Content-Type"]) == (status, "application/problem+json")
    assert refused.json().get("kafka_error", {}).get("name") == error, refused.json()
    assert olga.get(f"topics/{topic}").status_code == 404


def test_a_name_is_given_once_and_the_refusal_says_what_to_do(olga: Operator, topic: str) -> None:
    olga.post("topics", topic=topic)
    refused = olga.post("topics", topic=topic)
    assert (refused.status_code, refused.json()["kafka_error"]["name"]) == (409, "TOPIC_ALREADY_EXISTS")
    assert (
        refused.json()["detail"] == f"Topic {topic} exists. Choose another name, or delete that topic first."
    )


def test_a_write_needs_to_say_what_it_looked_at(olga: Operator, topic: str) -> None:
    olga.post("topics", topic=topic)
    assert olga.delete(f"topics/{topic}?reason=x").status_code == 428
    assert olga.delete(f"topics/{topic}?reason=x", match='"3-7"').status_code == 400
    assert olga.delete(f"topics/{topic}", match="*").status_code == 400
    assert olga.delete(f"topics/{topic}?reason=x&reason=y", match="*").status_code == 400
    assert olga.post(f"topics/{topic}/partitions", partitions=2).status_code == 428
    assert olga.delete(f"topics/{topic}?reason=x&topic_id={uuid4()}").status_code == 412
    there = olga.get(f"topics/{topic}").json()["topic_id"]
    assert olga.delete(f"topics/{topic}?reason=x&topic_id={there}").status_code == 200


def test_a_key_names_one_request(olga: Operator, topic: str) -> None:
    key = uuid4().hex
    first = olga.post("topics", key=key, topic=topic)
    again = olga.post("topics", key=key, topic=topic)
    assert (again.status_code, again.json()) == (201, first.json())
    assert olga.post("topics", key=key, topic=f"{topic}-b").status_code == 422
    assert olga.post("topics", key="no spaces", topic=topic).status_code == 400


def test_partitions_move_and_a_move_is_cancelled(shared: Cluster, olga: Operator, topic: str) -> None:
    olga.post("topics", topic=topic, assignments=[[1, 2], [1, 2]])
    # The row changes when a follower is admitted: what is looked at here stays.
    shared.await_true(
        lambda: shared.everybody_in_sync(topic) and -1 not in shared.leaders(topic).values(), "all lead"
    )
    version = olga.get(f"partitions/{topic}/0").json()["version"]
    moved = olga.post(
        "reassignments",
        partitions=[
            {"topic": topic, "partition": 0, "replicas": [3, 2], "version": version},
            {"topic": topic, "partition": 1, "replicas": [3, 77], "version": None},
        ],
    )
    assert (moved.status_code, moved.json()["verdict"]) == (200, "partly done")
    assert [one["error"] for one in moved.json()["results"]] == [None, "INVALID_REPLICA_ASSIGNMENT"]
    shared.await_true(lambda: shared.partitions(topic)[0]["assigned"] == [3, 2], "it moved")
    target = {"topic": topic, "partition": 0, "replicas": [1, 2], "version": version}
    stale = olga.post("reassignments", partitions=[target])
    assert (stale.status_code, stale.json()["kafka_error"]["name"]) == (412, "INVALID_UPDATE_VERSION")
    # Fewer replicas only if that is meant.
    fewer = {"topic": topic, "partition": 0, "replicas": [2], "version": None}
    assert olga.post("reassignments", partitions=[fewer]).status_code == 409

    # A target that is away: the move waits until it is cancelled.
    shared.brokers[3].kill()
    shared.await_true(lambda: 3 not in shared.live_brokers(), "it is missed")
    waits = {"topic": topic, "partition": 1, "replicas": [1, 3], "version": None}
    assert olga.post("reassignments", partitions=[waits]).status_code == 200
    [listed] = olga.get(f"reassignments?topic={topic}&phase=InProgress").json()["items"]
    address = f"reassignments/{listed['id']}"
    assert olga.delete(f"{address}?reason=x").status_code == 428
    assert olga.delete(f"{address}?reason=x", match=f'"{listed["id"]}-1"').status_code == 412
    match, key = olga.tag(address), uuid4().hex
    cancelled = olga.delete(f"{address}?reason=wrong", match=match, key=key)
    assert (cancelled.status_code, cancelled.json()["verdict"]) == (200, "done")
    assert olga.get(address).json()["phase"] == "Cancelled"
    assert olga.delete(f"{address}?reason=wrong", match=match, key=key).json() == cancelled.json()
    assert olga.delete(f"{address}?reason=wrong", match="*").status_code == 412
    shared.start_broker(3)
    shared.wait_until_ready([3])


def test_roles_and_names_bound_what_a_token_may(shared: Cluster, olga: Operator, topic: str) -> None:
    olga.post("topics", topic=topic)
    vera = Operator(shared.token("vera", "viewer"))
    assert vera.post("topics", topic=f"{topic}-b").status_code == 403
    assert vera.delete(f"topics/{topic}?reason=x", match="*").status_code == 403
    assert vera.post(f"topics/{topic}/partitions", match="*", partitions=2).status_code == 403
    assert vera.post("reassignments", partitions=[]).status_code == 403
    assert vera.get("controller/requests").status_code == 200
    printed = shared.manage("create_token", "tom", "--role", "operator", "--topic", "mine-*")
    tom = Operator(printed.split()[-1])
    assert tom.post("topics", topic=f"mine-{topic}").status_code == 201
    for refused in (
        tom.post("topics", topic=topic),
        tom.delete(f"topics/{topic}?reason=x", match="*"),
        tom.post(f"topics/{topic}/partitions", match="*", partitions=2),
        tom.post(
            "reassignments",
            partitions=[{"topic": topic, "partition": 0, "replicas": [1], "version": None}],
        ),
    ):
        assert (refused.status_code, refused.json()["kafka_error"]["name"]) == (
            403,
            "TOPIC_AUTHORIZATION_FAILED",
        )
    # What others asked for may name topics that this token may not know of.
    assert {one["principal"] for one in tom.get("controller/requests").json()["items"]} == {"tom"}
    hers = olga.get("controller/requests").json()["items"]
    [one] = [one for one in hers if one["principal"] == "olga"][:1]
    assert tom.get(f"controller/requests/{one['request']}").status_code == 404


def test_who_waits_too_long_is_told_where_the_answer_will_stand(
    shared: Cluster, olga: Operator, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "WAIT_S", 0.0)
    later = olga.post("topics", topic=topic)
    # The controller may have answered before the first look.
    assert later.status_code in (201, 202)
    address = f"/api/v1/controller/requests/{later.json()['request']}"
    if later.status_code == 202:
        assert later["Location"] == address and later.json()["verdict"] == "waiting"
    shared.await_true(lambda: olga.get(address).json()["verdict"] == "done", "it is answered")


def test_topics_are_not_created_without_end(
    olga: Operator, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(created_topics, "_burst", 1)
    monkeypatch.setattr(created_topics, "_per_second", 0.001)
    assert olga.post("topics", topic=topic).status_code == 201
    refused = olga.post("topics", topic=f"{topic}-b")
    assert (refused.status_code, refused.json()["kafka_error"]["name"]) == (429, "THROTTLING_QUOTA_EXCEEDED")
    assert int(refused["Retry-After"]) >= 1
