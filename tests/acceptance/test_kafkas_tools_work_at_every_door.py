"""Kafka's own command line tools, unmodified, at a broker and at a node: one answer, whichever is asked."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.acceptance.kafka_tools import TOOLS, Said, Tools
from tests.acceptance.members import java, missing, until
from tests.acceptance.story import Stack, doors, process_of, running_stack, start_again, until_told

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(missing("java")), reason=missing("java")),
]
NUMBERS = count(1)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two nodes and three brokers."""
    with running_stack(tmp_path_factory.mktemp("stack") / "home", brokers=3) as told:
        yield told


@pytest.fixture(scope="module")
def process(stack: Stack) -> Iterator[Tools]:
    with Tools(stack["bootstrap"]) as tools:
        yield tools


@pytest.fixture(params=["broker", "node"])
def tools(request: pytest.FixtureRequest, stack: Stack, process: Tools) -> Tools:
    """They ask this door first; where records are concerned it sends them on."""
    return process.at(doors(stack)[request.param])


@pytest.fixture
def orders(tools: Tools) -> str:
    """A new topic of three partitions with three replicas each."""
    name = f"orders-{next(NUMBERS)}"
    said = topics(tools, "--create", "--topic", name, "--partitions", 3, "--replication-factor", 3)
    assert said.status == 0 and f"Created topic {name}." in said.text, said.text
    until_told(tools.bootstrap, name)
    return name


def topics(tools: Tools, *words: object) -> Said:
    """kafka-topics.sh."""
    return tools.run("TopicCommand", *words)


def listed(tools: Tools) -> set[str]:
    said = topics(tools, "--list")
    assert said.status == 0, said.text
    return set(said.text.split())


def ends(tools: Tools, topic: str, time: str = "-1") -> dict[int, int]:
    """kafka-get-offsets.sh: an offset for each partition."""
    said = tools.run("GetOffsetShell", "--topic", topic, "--time", time)
    assert said.status == 0, said.text
    rows = (line.split(":") for line in said.text.splitlines() if line.startswith(f"{topic}:"))
    return {int(number): int(offset) for _, number, offset in rows}


def test_a_topic_is_created_listed_and_deleted(tools: Tools, orders: str) -> None:
    assert orders in listed(tools)
    again = topics(tools, "--create", "--topic", orders)
    assert again.status == 1 and f"topic {orders} exists" in again.text
    assert topics(tools, "--create", "--if-not-exists", "--topic", orders).status == 0
    assert topics(tools, "--delete", "--topic", orders).status == 0
    # Whichever door tells of topics next may not have heard of it yet.
    until(lambda: orders not in listed(tools), "the topic is gone")
    gone = topics(tools, "--delete", "--topic", orders)
    # The tool's own word, or the controller's if the tool heard of it from a door that did not know yet.
    words = (f"Topic '{orders}' does not exist as expected", f"there is no topic {orders}")
    assert gone.status == 1 and any(word in gone.text for word in words), gone.text


def test_a_topic_is_described(tools: Tools, orders: str) -> None:
    until(partial(_is_whole, tools, orders), "each broker leads one, and all are in sync")


def _is_whole(tools: Tools, topic: str) -> bool:
    """As kafka-topics.sh tells it. Who has heard of a topic may still have to hear who leads it."""
    said = topics(tools, "--describe", "--topic", topic)
    assert said.status == 0, said.text
    head, *rows = [dict(_pairs(line)) for line in said.text.splitlines() if line.strip()]
    assert (head["Topic"], head["PartitionCount"], head["ReplicationFactor"]) == (topic, "3", "3")
    assert [row["Partition"] for row in rows] == ["0", "1", "2"]
    assert all(sorted(row["Replicas"].split(",")) == ["1", "2", "3"] for row in rows)
    in_sync = all(sorted(row["Isr"].split(",")) == ["1", "2", "3"] for row in rows)
    return in_sync and {row["Leader"] for row in rows} == {"1", "2", "3"}


def test_what_lacks_replicas_is_found(stack: Stack, process: Tools) -> None:
    at_broker, at_node = (process.at(door) for door in doors(stack).values())
    made = topics(at_broker, "--create", "--topic", "copied", "--replica-assignment", "1:3,3:1,1:2")
    assert made.status == 0, made.text
    made = topics(at_node, "--create", "--topic", "single", "--replica-assignment", "3")
    assert made.status == 0, made.text
    for which in FINDINGS:
        until(partial(_finds_nothing, at_broker, which), f"nothing is found {which}")
    os.kill(process_of(stack, "broker-3"), signal.SIGKILL)
    try:
        until(lambda: lacking(at_broker)[0] >= {("copied", "0"), ("copied", "1")}, "replicas are missed")
        for tools in (at_broker, at_node):
            until(partial(_finds_single, tools), "one partition has no leader")
            assert ("copied", "2") not in lacking(tools)[0]
    finally:
        start_again(stack, "broker-3")
    for tools in (at_broker, at_node):
        for which in FINDINGS:
            until(partial(_finds_nothing, tools, which), "nothing lacks any more")


FINDINGS = ("--under-replicated-partitions", "--unavailable-partitions")


def _finds_nothing(tools: Tools, which: str) -> bool:
    return described(tools, which) == []


def _finds_single(tools: Tools) -> bool:
    """Who was in sync last, and has to come back, is told with it."""
    unavailable = described(tools, "--unavailable-partitions")
    return [(one["Topic"], one["Partition"], one["Isr"]) for one in unavailable] == [("single", "0", "3")]


def lacking(tools: Tools) -> list[set[tuple[str, str]]]:
    """Topic and partition of what lacks replicas, and of what lacks a leader."""
    return [{(one["Topic"], one["Partition"]) for one in described(tools, which)} for which in FINDINGS]


def described(tools: Tools, which: str) -> list[dict[str, str]]:
    """The partitions of all topics of which this is true."""
    said = topics(tools, "--describe", which)
    assert said.status == 0, said.text
    return [dict(_pairs(line)) for line in said.text.splitlines() if line.strip()]


def _pairs(line: str) -> Iterator[tuple[str, str]]:
    """`Topic: orders	Partition: 0	...`: names and values."""
    for pair in line.strip().split("\t"):
        name, _, value = pair.partition(":")
        yield name.strip(), value.strip()


def test_a_topic_grows_and_never_shrinks(tools: Tools, orders: str) -> None:
    assert topics(tools, "--alter", "--topic", orders, "--partitions", 5).status == 0
    until(lambda: len(ends(tools, orders)) == 5, "the topic has five partitions")
    refused = topics(tools, "--alter", "--topic", orders, "--partitions", 4)
    assert refused.status == 1 and "has 5 partitions already" in refused.text


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ["--replication-factor", "4"],
            "4 replicas need as many brokers that are not cordoned, and there are 3",
        ),
        (["--replica-assignment", "1:9"], "broker 9 never registered"),
        (["--replica-assignment", "1:10001"], "10001 is a node, and nodes hold no replicas"),
        (["--config", "min.insync.replicas=0"], "min.insync.replicas"),
        (["--config", "no.such.key=1"], "no.such.key"),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_a_reason(tools: Tools, words: list[str], why: str) -> None:
    refused = topics(tools, "--create", "--topic", "clicks", *words)
    assert refused.status == 1 and why in refused.text, refused.text
    assert "clicks" not in listed(tools)


def test_a_name_that_no_topic_may_have_is_refused(tools: Tools) -> None:
    refused = topics(tools, "--create", "--topic", "a/b")
    assert refused.status == 1 and "letters, digits" in refused.text, refused.text


def test_lines_are_written_and_read_and_offsets_told(tools: Tools, orders: str) -> None:
    lines = [f"line-{number}" for number in range(20)]
    properties = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=="]
    fed = "".join(f"customer-{line}={line}\n" for line in lines)
    said = tools.run("ConsoleProducer", "--topic", orders, *properties, fed=fed)
    assert said.status == 0, said.text
    words = ["--from-beginning", "--max-messages", len(lines), "--timeout-ms", 60_000]
    said = tools.run("consumer.ConsoleConsumer", "--topic", orders, *words)
    assert said.status == 0, said.text
    read = [line for line in said.text.splitlines() if line.startswith("line-")]
    assert sorted(read) == sorted(lines)
    latest = ends(tools, orders)
    assert len(latest) == 3 and sum(latest.values()) == len(lines)
    assert ends(tools, orders, "-2") == {0: 0, 1: 0, 2: 0}
    # By time: nothing is younger than a time to come, everything is younger than 1970.
    assert ends(tools, orders, "1") == {number: 0 for number, end in latest.items() if end} | {
        number: end for number, end in latest.items() if not end
    }


def test_performance_is_measured(tools: Tools, orders: str) -> None:
    words = ["--num-records", 5_000, "--record-size", 100, "--throughput", -1]
    said = tools.run("ProducerPerformance", "--topic", orders, *words)
    assert said.status == 0 and "5000 records sent" in said.text, said.text
    said = tools.run("ConsumerPerformance", "--topic", orders, "--num-records", 5_000, "--timeout", 60_000)
    assert said.status == 0, said.text
    # Start, end, megabytes, megabytes a second, records.
    [row] = [line.split(", ") for line in said.text.splitlines() if line.startswith("2")]
    assert int(row[4]) == 5_000


def test_a_verifiable_producer_is_told_of_each_record(stack: Stack, tools: Tools, orders: str) -> None:
    words = ["--bootstrap-server", tools.bootstrap, "--topic", orders, "--max-messages", "30"]
    command = [*java(), f"{TOOLS}.VerifiableProducer", *words]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    facts = [json.loads(line) for line in said.stdout.splitlines() if line.startswith("{")]
    sent = [fact for fact in facts if fact["name"] == "producer_send_success"]
    assert sorted(int(fact["value"]) for fact in sent) == list(range(30)), said.stdout + said.stderr
    assert sum(ends(tools, orders).values()) == 30


def test_every_door_says_which_requests_it_serves(stack: Stack, process: Tools) -> None:
    served = {}
    for kind, address in doors(stack).items():
        said = process.at(address).run("BrokerApiVersionsCommand")
        assert said.status == 0, said.text
        of_each = said.text.split("\n)\n")
        served[kind] = {part.split("(id:")[0]: part.split("-> (")[1] for part in of_each if "-> (" in part}
        # Three brokers and two nodes say the same, whoever is asked for their addresses.
        assert len(served[kind]) == 5 and len(set(served[kind].values())) == 1
    assert served["broker"] == served["node"]
    (told,) = set(served["node"].values())
    assert "CreateTopics(19): 2 to 7 [usable: 7]" in told
    assert "AddPartitionsToTxn(24): UNSUPPORTED" in told


def test_nothing_moves_and_the_tool_says_so(tools: Tools) -> None:
    said = tools.run("reassign.ReassignPartitionsCommand", "--list")
    assert (said.status, said.text.strip()) == (0, "No partition reassignments found.")


REASSIGN, ACLS = "reassign.ReassignPartitionsCommand", "AclCommand"
ANN = ("--allow-principal", "User:ann", "--operation", "Read", "--topic", "clicks")


@pytest.mark.parametrize(
    ("replicas", "why"),
    [
        ([1, 10_001], "10001 is a node, and nodes hold no replicas"),
        ([1, 77], "Unknown broker id 77"),
        ([1, 1], "may not contain duplicate entries"),
        ([], "Partition replica list cannot be empty"),
    ],
)
def test_a_plan_of_nonsense_is_refused_with_a_reason(
    tools: Tools, orders: str, replicas: list[int], why: str, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    wanted = {"topic": orders, "partition": 0, "replicas": replicas}
    plan.write_text(json.dumps({"version": 1, "partitions": [wanted]}), encoding="utf-8")
    said = tools.run(REASSIGN, "--reassignment-json-file", plan, "--execute")
    assert why in said.text, said.text
    test_nothing_moves_and_the_tool_says_so(tools)


@pytest.mark.parametrize("words", [["--list"], ["--add", *ANN], ["--remove", "--force", *ANN]])
def test_who_asks_for_acls_is_told_of_tokens(tools: Tools, words: list[str]) -> None:
    said = tools.run(ACLS, *words)
    assert said.status == 1 and "tokens say who may do what" in said.text, said.text


def test_more_groups_than_a_thousand_are_described_and_deleted_at_once(stack: Stack, tools: Tools) -> None:
    """Each coordinator is asked about all of its groups in one request."""
    number = next(NUMBERS)
    names = {f"group-{number}-{n}" for n in range(2_100)}
    assert topics(tools, "--create", "--topic", f"clicks-{number}", "--partitions", 1).status == 0
    until_told(tools.bootstrap, f"clicks-{number}")
    _commit_in_each(stack["bootstrap"], names, f"clicks-{number}")
    described = tools.groups("--describe", "--all-groups", "--state")
    assert described.status == 0 and names <= first_words(described), described.text[-500:]
    deleted = tools.groups("--delete", "--all-groups")
    assert "was successful" in deleted.text, deleted.text[-500:]
    assert names.isdisjoint(first_words(tools.groups("--list")))


def first_words(said: Said) -> set[str]:
    return {line.split()[0] for line in said.text.splitlines() if line.strip()}


def _commit_in_each(bootstrap: str, names: set[str], topic: str) -> None:
    """Let these groups exist, two hundred at a time."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    waiting = list(names)
    while waiting:
        some, waiting = waiting[:200], waiting[200:]
        wanted = [ConsumerGroupTopicPartitions(name, [TopicPartition(topic, 0, 0)]) for name in some]
        for done in [admin.alter_consumer_group_offsets([one]) for one in wanted]:
            for future in done.values():
                future.result(60)
