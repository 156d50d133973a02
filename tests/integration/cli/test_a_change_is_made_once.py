"""A change is made once, however its answer gets lost; Ctrl-C ends only the command."""

import json
import os
import pty
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from muster.cli.failures import ExitCode
from tests.integration.cli.conftest import Muster, Operated
from tests.integration.cli.odd_server import accepting
from tests.integration.cli.test_a_cluster_is_operated import SURE, WHY, committed, topic_of

pytestmark = pytest.mark.timeout(600)


def message(stream: socket.socket) -> bytes:
    """One whole request or answer of HTTP; empty at the end."""
    seen = b""
    while b"\r\n\r\n" not in seen:
        part = stream.recv(65_536)
        if not part:
            return b""
        seen += part
    head, _, body = seen.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    while len(body) < (int(length[1]) if length else 0):
        body += stream.recv(65_536)
    return head + b"\r\n\r\n" + body


@contextmanager
def lossy(url: str, lost: int, kept: int = 0) -> Iterator[str]:
    """The address of a door to `url` that loses the answers to `lost` changes, after the first `kept`."""
    to = (str(urlsplit(url).hostname), int(urlsplit(url).port or 80))
    left, first = [lost], [kept]

    def carry(client: socket.socket) -> None:
        with client, socket.create_connection(to) as server:
            while asked := message(client):
                server.sendall(asked)
                answer = message(server)
                changes = asked.startswith((b"POST", b"DELETE"))
                if changes and first[0]:
                    first[0] -= 1
                elif changes and left[0]:
                    left[0] -= 1
                    client.sendall(answer[: len(answer) // 2])
                    return
                client.sendall(answer)

    with accepting(carry) as place:
        yield f"http://{place}"


def test_a_change_whose_answer_was_lost_is_asked_again_under_its_key(operated: Operated) -> None:
    muster, name = operated.muster, f"once-{uuid4().hex[:8]}"
    with lossy(muster.environment["MUSTER_URL"], 2) as url:
        said = muster.done("topics", "create", name, "-p", 1, "--url", url, *WHY)
    assert said.err.count("Nobody answered; asking again.") == 2 and "Done" in said.err
    listed = muster.done("requests", "list", "--limit", 4, "-o", "json").json
    told = [muster.done("requests", "show", one["request"], "-o", "json").out for one in listed]
    assert sum(name in one for one in told) == 1


def test_a_change_of_which_nobody_knows_is_repeated_by_its_key(operated: Operated) -> None:
    muster, name = operated.muster, f"once-{uuid4().hex[:8]}"
    muster.done("topics", "create", name, "-p", 1, *WHY)
    with lossy(muster.environment["MUSTER_URL"], 99) as url:
        said = muster("topics", "delete", name, "--url", url, *SURE)
    assert said.code == ExitCode.UNREACHABLE and "It may have been carried out." in said.err
    words = said.err.split("The same command with ")[1].split(" does it once")[0].replace("'", "").split()
    assert words[0] == "--idempotency-key" and words[2] == "--if-match"
    assert "Done" in muster.done("topics", "delete", name, *SURE, *words).err
    assert muster("topics", "show", name).code == ExitCode.NOT_FOUND


@pytest.mark.parametrize("heard", [1, 2])
def test_a_command_of_several_changes_goes_on_under_its_key(operated: Operated, heard: int) -> None:
    muster, topic = operated.muster, topic_of(operated, "--assign", "3,2")
    committed(operated, topic, records=2_000, offset=0)
    words = ("brokers", "drain", 3, "--throttle", "1", *SURE)
    with lossy(muster.environment["MUSTER_URL"], 99, heard) as url:
        said = muster(*words, "--url", url)
    assert said.code == ExitCode.UNREACHABLE and "--if-match" not in said.err
    key = said.err.split("The same command with ")[1].split(" does it once")[0].split()
    with muster.begin(*words, *key) as process:
        assert process.stderr is not None
        lines = iter(process.stderr)
        running = next((line for line in lines if "Running" in line), "")
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert running.startswith("Plan ") and process.returncode == ExitCode.INTERRUPTED, running + rest
    muster.done("plans", "cancel", running.split()[1].rstrip(":"), "--moves", *WHY)
    muster.done("topics", "delete", topic, *SURE)


def test_the_same_command_under_the_same_key_is_told_the_first_answer(operated: Operated) -> None:
    """Though it was carried out on a version that is no more, or its topic has grown since, or is gone."""
    muster, name = operated.muster, f"once-{uuid4().hex[:8]}"

    def twice(*words: object, between: tuple[object, ...] = ()) -> None:
        keyed = (*words, "--idempotency-key", f"{words[1]}-{name}", *SURE)
        told = [muster.done(*keyed, "-o", "json").json["request"]]
        if between:
            muster.done(*between, *SURE)
        told.append(muster.done(*keyed, "-o", "json").json["request"])
        assert told[0] == told[1]

    muster.done("topics", "create", name, "-p", 1, *WHY)
    twice("topics", "add-partitions", name, 2)
    twice("topics", "elect", "--topic", name, between=("topics", "add-partitions", name, 3))
    twice("topics", "delete", name)
    assert muster("topics", "show", name).code == ExitCode.NOT_FOUND
    other = ("topics", "create", name, "--idempotency-key", f"delete-{name}", *WHY)
    assert "given to another request" in muster(*other).err


def test_a_whole_topic_is_another_request_than_some_of_its_partitions(operated: Operated) -> None:
    muster, name = operated.muster, f"some-{uuid4().hex[:8]}"
    muster.done("topics", "create", name, "-p", 2, *WHY)
    some, whole = f"{name}:0-1", name
    for first, second in ((some, whole), (whole, some)):
        key = ("--idempotency-key", f"{first}-first", *SURE)
        # It may be refused while a broker is not in sync yet: that is an answer under the key as well.
        answer = muster("topics", "elect", "--topic", first, *key)
        said = muster("topics", "elect", "--topic", second, *key)
        assert "given to another request" in said.err, said.out + said.err
        assert muster("topics", "elect", "--topic", first, *key).err == answer.err
    muster.done("topics", "delete", name, *SURE)


def words_to_repeat(muster: Muster, heard: int, *words: object) -> list[str]:
    """How to repeat the command, whose changes were answered to the first `heard`, and never after."""
    with lossy(muster.environment["MUSTER_URL"], 99, heard) as url:
        said = muster(*words, "--url", url)
    assert said.code == ExitCode.UNREACHABLE, said.err
    told = said.err.split("The same command with ")[1].split(" does it once")[0]
    return told.replace("'", "").split()


def test_moves_are_asked_and_cancelled_once_though_they_change_the_rows_they_are_about(
    operated: Operated,
) -> None:
    muster, topic = operated.muster, topic_of(operated, "--assign", "3,2", "--assign", "2,3")
    producer = Producer({"bootstrap.servers": operated.cluster.bootstrap, "log_level": 0})
    for number in range(4_000):
        producer.produce(topic, b"x", partition=number % 2)
    assert producer.flush(60) == 0
    wanted = [{"topic": topic, "partition": number, "replicas": [1, 2]} for number in (0, 1)]
    file = muster.home / "once.json"
    file.write_text(json.dumps({"version": 1, "partitions": wanted}), encoding="utf-8")
    start = ("moves", "start", file, "--throttle", "1", *WHY)
    key = words_to_repeat(muster, 0, *start)
    assert "Done" in muster.done(*start, *key).err
    moves = muster.done("moves", "list", "--topic", topic, "-o", "json").json
    assert len(moves) == 2, "they were asked for once"
    cancel = ("moves", "cancel", *(one["id"] for one in moves), *WHY)
    key = words_to_repeat(muster, 1, *cancel)
    assert muster.done(*cancel, *key).err.count("Done") == 2
    muster.done("topics", "delete", topic, *SURE)


def test_a_span_of_time_is_repeated_as_the_time_that_it_meant(operated: Operated) -> None:
    topic = topic_of(operated)
    muster, group = operated.muster, committed(operated, topic, records=3, offset=2)
    words = ("groups", "reset-offsets", group, "--all-topics", *SURE)
    with lossy(muster.environment["MUSTER_URL"], 99) as url:
        said = muster(*words, "--by-duration", "1h", "--url", url)
    told = said.err.split("The same command with ")[1].split(" does it once")[0].replace("'", "")
    again, _, instead = told.partition(" in place of ")
    assert instead == "--by-duration 1h"
    assert "Done" in muster.done(*words, *again.split()).err


@pytest.mark.parametrize(("typed", "code"), [("orders", ExitCode.USAGE), ("", ExitCode.USAGE), (None, 0)])
def test_somebody_at_a_terminal_types_the_name_of_what_is_lost(
    operated: Operated, typed: str | None, code: int
) -> None:
    muster, name = operated.muster, f"gates-{uuid4().hex[:8]}"
    muster.done("topics", "create", name, "-p", 1, *WHY)
    ours, theirs = pty.openpty()
    process = muster.begin("topics", "delete", name, stdin=theirs, stderr=theirs)
    os.close(theirs)
    answers = {b"Why? ": "retired", b"to go on: ": name if typed is None else typed}
    seen = b""
    for question, answer in answers.items():
        while question not in seen:
            seen += os.read(ours, 65_536)
        os.write(ours, f"{answer}\n".encode())
    assert process.wait(60) == code
    os.close(ours)
    assert f"All records of {name} are lost.".encode() in seen
    assert muster("topics", "show", name).code == (ExitCode.NOT_FOUND if code == 0 else 0)


def test_who_says_no_between_two_changes_is_told_what_was_done(operated: Operated) -> None:
    muster = operated.muster
    topic = topic_of(operated, "--assign", "2,1")
    ours, theirs = pty.openpty()
    process = muster.begin("brokers", "decommission", 2, *WHY, stdin=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    while b"Type 2 to go on: " not in seen:
        seen += os.read(ours, 65_536)
    os.write(ours, b"22\n")
    assert process.wait(60) == ExitCode.USAGE
    said = os.read(ours, 65_536).decode()
    os.close(ours)
    assert b"Back: muster brokers uncordon 2" in seen
    assert "Nothing more was done." in said and "goes on where it ended" in said
    muster.done("brokers", "uncordon", 2, *WHY)
    for plan in muster.done("plans", "list", "--phase", "Draft", "-o", "name").out.split():
        muster.done("plans", "cancel", plan, *WHY)
    muster.done("topics", "delete", topic, *SURE)


def test_ctrl_c_ends_the_command_and_leaves_the_plan(operated: Operated) -> None:
    muster = operated.muster
    topic = topic_of(operated, "--assign", "3,2")
    committed(operated, topic, records=2_000, offset=0)
    words = ("--broker", 3, "--topic", topic, "--throttle", "1", "--wait", "-o", "json")
    plan = muster.done("plans", "propose", "drain", *words, *WHY).json["plan"]
    assert "not above" not in muster.done("plans", "show", plan).err
    muster.done("plans", "approve", plan, *WHY)
    process = muster.begin("plans", "run", plan, "--wait", *WHY)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(f"Plan {plan}: Running"):
            break
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait(60) == ExitCode.INTERRUPTED, rest
    process.stderr.close()
    assert f"Plan {plan} goes on." in rest and f"muster plans show {plan} --watch" in rest
    assert muster.done("plans", "show", plan, "-o", "json").json["phase"] == "Running"
    muster.done("plans", "pause", plan, *WHY)
    [move] = muster.done("moves", "list", "--topic", topic, "-o", "json").json
    muster.done("moves", "cancel", move["id"], *WHY)
    muster.done("plans", "cancel", plan, "--moves", *WHY)
