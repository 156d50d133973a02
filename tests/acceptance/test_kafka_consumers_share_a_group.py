"""Members by every client share a topic; they come, go and die, nodes die and drain, and nothing is lost."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.acceptance.kafka_tools import Said, Tools
from tests.acceptance.members import CLIENTS, COME_BACK, ELSEWHERE, Member, Seat, missing, until
from tests.acceptance.story import (
    SESSION_MS,
    Party,
    Stack,
    Story,
    committed,
    create,
    running_stack,
    told_of_nodes,
)

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]
WHOLE = bool(os.environ.get("WHOLE"))
"""`make clients`: with 10,000 records, and with all clients."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two nodes and one broker, with an empty topic."""
    with running_stack(tmp_path_factory.mktemp("stack") / "home") as told:
        create(told["bootstrap"], "orders")
        yield told


def left_out(client: str) -> str:
    """Why this client has no part in the story; empty if it has."""
    return missing(client) or ("" if WHOLE or client not in ELSEWHERE else "`make clients` runs it")


@pytest.fixture(scope="module")
def told(
    stack: Stack, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[dict[str, Party], int]:
    """What the clients went through that are asked for, as by `-k franz`; and how many records there were."""
    params = [getattr(item, "callspec", None) for item in request.session.items]
    asked = {one.params.get("client") for one in params if one}
    folder = tmp_path_factory.mktemp("members")
    parties = [Party(stack, one, folder) for one in CLIENTS if one in asked and not left_out(one)]
    story = Story(stack, parties, 10_000 if WHOLE else 2_000)
    try:
        with told_of_nodes(stack):
            story.members_come_and_go()
            story.nodes_die_and_drain()
            return {party.client: party for party in parties}, story.everything_is_read()
    finally:
        for party in parties:
            for member in (*party.staying, *party.left):
                member.kill()


@pytest.mark.parametrize("client", CLIENTS)
def test_members_come_and_go_and_outlive_their_coordinator(
    stack: Stack, client: str, request: pytest.FixtureRequest
) -> None:
    if reason := left_out(client):
        pytest.skip(reason)
    parties, count = request.getfixturevalue("told")
    party: Party = parties[client]
    # Order, and errors at the application, were looked at while they read.
    assert party.values == set(range(count))
    if client not in COME_BACK and not party.came_back:
        assert party.turns[0] == party.turns[1], "nobody is told anything new when a node dies or drains"
        assert party.generations[:1] == party.generations[1:]
    if not party.alone:
        assert committed(stack["bootstrap"], party.group) == count


# Kafka's own tools.


@pytest.fixture(scope="module")
def tools(stack: Stack) -> Iterator[Tools]:
    """They ask brokers, as an operator's shell does."""
    if reason := missing("java"):
        pytest.skip(reason)
    with Tools(stack["bootstrap"]) as tools:
        yield tools


@pytest.fixture(scope="module")
def clicks(stack: Stack) -> str:
    """A topic of three partitions with ten records each."""
    create(stack["bootstrap"], "clicks", partitions=3)
    producer = Producer({"bootstrap.servers": stack["bootstrap"]})
    for number in range(30):
        producer.produce("clicks", partition=number % 3, key=b"ann", value=b"%d" % number)
    assert producer.flush(60) == 0
    return "clicks"


def commit(stack: Stack, group: str, topic: str, offset: int = 4) -> None:
    """Let a group without members exist, with this offset in every partition."""
    consumer = Consumer({"bootstrap.servers": stack["bootstrap"], "group.id": group})
    offsets = [TopicPartition(topic, number, offset) for number in range(3)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def new_offsets(said: Said, group: str) -> dict[int, int]:
    """What a table says behind group, topic and partition."""
    assert said.status == 0, said.text
    return {int(row[2]): int(row[3]) for row in said.rows(group)}


def now(tools: Tools, group: str) -> dict[int, int]:
    """What is committed, as the tool tells it."""
    return new_offsets(tools.groups("--describe", "--group", group), group)


RESETS = {
    "--to-earliest": 0,
    "--to-latest": 10,
    "--to-offset 7": 7,
    "--to-offset 99": 10,
    "--shift-by 3": 7,
    "--shift-by -99": 0,
    "--to-datetime 2020-01-01T00:00:00.000": 0,
    "--to-datetime 2099-01-01T00:00:00.000": 10,
    "--by-duration P1D": 0,
    "--by-duration PT0S": 10,
    "--to-current": 4,
}


def test_kafkas_tool_resets_offsets_in_every_form(stack: Stack, tools: Tools, clicks: str) -> None:
    groups = {f"billing-{number}": how for number, how in enumerate(RESETS)}

    def reset(group: str, mode: str) -> dict[int, int]:
        words = ["--reset-offsets", "--group", group, "--topic", clicks, *groups[group].split(), mode]
        return new_offsets(tools.groups(*words), group)

    def all_now() -> dict[str, dict[int, int]]:
        described = tools.groups("--describe", "--all-groups")
        return {group: new_offsets(described, group) for group in groups}

    for group in groups:
        commit(stack, group, clicks)
    planned = {group: dict.fromkeys(range(3), RESETS[how]) for group, how in groups.items()}
    assert {group: reset(group, "--dry-run") for group in groups} == planned
    assert all_now() == {group: dict.fromkeys(range(3), 4) for group in groups}
    assert {group: reset(group, "--execute") for group in groups} == planned
    assert all_now() == planned


def test_kafkas_tool_resets_from_a_file_that_it_exported(
    stack: Stack, tools: Tools, clicks: str, tmp_path: Path
) -> None:
    commit(stack, "billing", clicks)
    words = ["--reset-offsets", "--group", "billing"]
    exported = tools.groups(*words, "--all-topics", "--to-current", "--export", "--dry-run")
    plan = tmp_path / "plan.csv"
    plan.write_text(exported.text.strip().replace("clicks,1,4", "clicks,1,9"), encoding="utf-8")
    assert new_offsets(tools.groups(*words, "--from-file", plan, "--dry-run"), "billing") == {
        0: 4,
        1: 9,
        2: 4,
    }
    assert now(tools, "billing") == {0: 4, 1: 4, 2: 4}
    tools.groups(*words, "--from-file", plan, "--execute")
    tools.groups(*words, "--topic", "clicks:2", "--to-earliest", "--execute")
    assert now(tools, "billing") == {0: 4, 1: 9, 2: 0}


def test_kafkas_tools_list_and_delete_groups_and_offsets(stack: Stack, tools: Tools, clicks: str) -> None:
    commit(stack, "invoices", clicks)
    assert tools.groups("--list").rows("invoices") == [["invoices"]]
    assert tools.groups("--list", "--state").rows("invoices") == [["invoices", "Empty"]]
    for words in (["--list"], ["--list", "--group-type", "classic"], ["--list", "--consumer"]):
        listed = tools.every_group(*words)
        assert (listed.status, listed.rows("invoices")) == (0, [["invoices", "Classic"]])
    deleted = tools.groups("--delete-offsets", "--group", "invoices", "--topic", "clicks:1")
    assert deleted.rows("clicks") == [["clicks", "1", "Successful"]]
    assert now(tools, "invoices") == {0: 4, 2: 4}
    assert "was successful" in tools.groups("--delete", "--group", "invoices").text
    assert tools.groups("--list").rows("invoices") == []
    assert "GroupIdNotFoundException" in tools.groups("--delete", "--group", "invoices").text


def test_kafkas_tools_describe_members_and_remove_them(
    stack: Stack, tools: Tools, clicks: str, tmp_path: Path
) -> None:
    group, client = "readers", CLIENTS["librdkafka-static"]
    seats = [Seat(stack, group, clicks, name, SESSION_MS) for name in ("ann", "ben")]
    members = [Member(client(seat), tmp_path, seat) for seat in seats]
    try:
        until(lambda: {len(one.assigned) for one in members} == {1, 2}, "two share the partitions", members)
        until(lambda: sum(len(one.read) for one in members) == 30, "everything is read", members)
        until(lambda: now(tools, group) == dict.fromkeys(range(3), 10), "and committed", members)
        [(_, coordinator, number, strategy, state, count)] = tools.groups(
            "--describe", "--group", group, "--state"
        ).rows(group)
        assert (strategy, state, count) == ("range", "Stable", "2")
        assert coordinator.startswith("127.0.0.1:") and number in ("(10001)", "(10002)")
        described = tools.groups("--describe", "--group", group, "--members", "--verbose").rows(group)
        assert {row[2]: row[7] for row in described} == {
            one.name.removeprefix("readers-"): f"clicks:{','.join(map(str, sorted(one.assigned)))}"
            for one in members
        }
        refused = tools.groups(
            "--reset-offsets", "--group", group, "--topic", clicks, "--to-earliest", "--execute"
        )
        assert "the current state is Stable" in refused.text
        assert "GroupNotEmptyException" in tools.groups("--delete", "--group", group).text
        refused = tools.groups("--delete-offsets", "--group", group, "--topic", clicks)
        assert "GroupSubscribedToTopicException" in refused.text
        for one in members:
            one.kill()
        assert tools.remove_members(group, "ann").status == 0
        left = tools.groups("--describe", "--group", group, "--members").rows(group)
        assert [row[2] for row in left] == ["ben"]
        assert tools.remove_members(group).status == 0
        assert tools.groups("--describe", "--group", group, "--members").rows(group) == []
    finally:
        for one in members:
            one.kill()
