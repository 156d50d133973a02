"""A change that got no good answer says which: nothing was changed, or how to ask once more for the same."""

import json
import os
import pty
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from muster.cli.failures import ExitCode
from tests.integration.cli.conftest import Muster, Said
from tests.integration.cli.odd_server import Answer, http, said, silent, stranger

CREATE = ("topics", "create", "orders", "--reason", "tried", "--idempotency-key", "k-1")
CORDON = ("brokers", "cordon", "1", "--reason", "tried")
MAYBE = "It may have been carried out. The same command with --idempotency-key k-1 does it once in all."
NOTHING = "Nothing was changed by it."
PROBLEM = b'{"title": "No", "detail": "It is so."}'
HALF = said(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
DONE = {"request": "r-1", "verdict": "done", "results": []}


def answered(body: object) -> Answer:
    """Muster's answer."""
    return http("200 OK", json.dumps(body).encode(), 'ETag: "1-1"')


def in_turn(*answers: Answer) -> Answer:
    """Each connection gets the next answer; the last one goes on."""
    left = list(answers)
    return lambda connection: (left.pop(0) if len(left) > 1 else left[0])(connection)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (HALF, MAYBE),
        (said(b""), MAYBE),
        (http("500 Oh", PROBLEM), MAYBE),
        (http("503 No", PROBLEM), MAYBE),
        (http("502 Bad", b"<html>", "Content-Type: text/html"), MAYBE),
        (said(b"HTTP/1.1 204 No Content\r\n\r\n"), MAYBE),
        (answered({"verdict": "done"}), MAYBE),
        (answered(DONE | {"results": [7]}), MAYBE),
        (answered(DONE | {"changes": 7}), MAYBE),
        (http("429 Too Many", PROBLEM, "Retry-After: 9"), NOTHING),
        (in_turn(HALF, http("429 Too Many", PROBLEM)), MAYBE),
    ],
    ids=[
        "half",
        "none",
        "a mistake",
        "not now",
        "a page",
        "no content",
        "unnamed",
        "strange results",
        "strange changes",
        "too many",
        "half, then too many",
    ],
)
def test_a_change_without_a_good_answer(nobody: Muster, answer: Answer, told: str) -> None:
    with stranger(answer) as url:
        ended = nobody(*CREATE, "--url", url)
    assert ended.code in (ExitCode.REFUSED, ExitCode.UNREACHABLE) and told in ended.err, ended.err
    assert "Traceback" not in ended.err and (told == MAYBE or MAYBE not in ended.err)


def test_a_change_that_nobody_has_heard(nobody: Muster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    ended = nobody(*CREATE, "--url", f"http://127.0.0.1:{port}")
    assert ended.code == ExitCode.UNREACHABLE and NOTHING in ended.err and MAYBE not in ended.err


def test_nothing_is_changed_on_a_version_that_nobody_told(nobody: Muster) -> None:
    asked: list[bytes] = []
    with stranger(http("200 OK", b'{"broker_id": 1}'), asked=asked) as url:
        ended = nobody(*CORDON, "--url", url)
    assert ended.code == ExitCode.UNREACHABLE
    assert "which version" in ended.err and "--if-match '*'" in ended.err
    assert len(asked) == 1


def test_no_plan_is_approved_on_a_version_that_nobody_told(nobody: Muster) -> None:
    asked: list[bytes] = []
    proposed = answered(DONE | {"results": [{"name": "p-1", "error": None, "text": ""}]})
    draft = http("200 OK", b'{"phase": "Draft", "step_count": 1}')
    with stranger(in_turn(answered({}), proposed, draft), asked=asked) as url:
        ended = nobody("brokers", "fill", "1", "--yes", "--reason", "tried", "--url", url)
    assert ended.code == ExitCode.UNREACHABLE and "which version" in ended.err, ended.err
    assert "--if-match" not in ended.err, "which this command refuses"
    assert [one.startswith(b"POST") for one in asked].count(True) == 1


def ended_by_ctrl_c(
    muster: Muster, asked: list[bytes], heard: int, *words: object, by: signal.Signals = signal.SIGINT
) -> Said:
    """How it ends when somebody interrupts it while the server says nothing to what it heard last."""
    process = muster.begin(*words, stdout=subprocess.PIPE)
    try:
        while len(asked) < heard:
            assert process.poll() is None
        process.send_signal(by)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return Said(process.returncode, out, err)


def test_who_interrupts_a_change_is_told_how_it_may_stand(nobody: Muster) -> None:
    """By SIGTERM, as `timeout` and a cancelled job do, the key was lost with which it is asked again."""
    asked: list[bytes] = []
    with stranger(silent, asked=asked) as url:
        ended = ended_by_ctrl_c(nobody, asked, 1, *CREATE, "--url", url, by=signal.SIGTERM)
    assert (ended.code, ended.out) == (ExitCode.INTERRUPTED, "")
    assert MAYBE in ended.err and "Traceback" not in ended.err


def test_who_interrupts_before_it_was_asked_is_told_that_nothing_was(nobody: Muster) -> None:
    asked: list[bytes] = []
    with stranger(silent, asked=asked) as url:
        ended = ended_by_ctrl_c(nobody, asked, 1, *CORDON, "--url", url)
    assert ended.code == ExitCode.INTERRUPTED
    assert ended.err == "muster: Interrupted.\n  Nothing was changed.\n"


def test_who_interrupts_a_look_is_told_nothing(nobody: Muster) -> None:
    asked: list[bytes] = []
    with stranger(silent, asked=asked) as url:
        ended = ended_by_ctrl_c(nobody, asked, 1, "topics", "list", "--url", url)
    assert (ended.code, ended.out, ended.err) == (ExitCode.INTERRUPTED, "", "")


def test_who_interrupts_a_question_at_a_terminal(nobody: Muster) -> None:
    ours, theirs = pty.openpty()
    process = nobody.begin(
        "topics",
        "create",
        "orders",
        "--url",
        "http://127.0.0.1:1",
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    seen = b""
    while b"Why? " not in seen:
        seen += os.read(ours, 65_536)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == ExitCode.INTERRUPTED
    seen += os.read(ours, 65_536)
    os.close(ours)
    os.close(theirs)
    assert b"Nothing was changed." in seen and b"Traceback" not in seen


@pytest.mark.parametrize("closed", ["1", "2"], ids=["stdout", "stderr"])
@pytest.mark.parametrize(("verdict", "code"), [("done", ExitCode.DONE), ("refused", ExitCode.CONFLICT)])
def test_a_pipe_that_nobody_reads_hides_no_refusal(
    nobody: Muster, closed: str, verdict: str, code: ExitCode
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    # Its first answer gets lost, which is noted on stderr.
    with stranger(in_turn(HALF, answered(DONE | {"verdict": verdict, "text": "It is so."}))) as url:
        done = subprocess.run(
            nobody.command(*CREATE, "--url", url, "-o", "json"),
            env=nobody.environment,
            cwd=nobody.home,
            stdout=writing if closed == "1" else subprocess.PIPE,
            stderr=writing if closed == "2" else subprocess.PIPE,
            timeout=60,
            check=False,
        )
    os.close(writing)
    assert done.returncode == code, done.stderr
    if closed == "2":
        assert json.loads(done.stdout)["verdict"] == verdict
    else:
        assert b"Traceback" not in done.stderr and b"Exception" not in done.stderr


def test_several_cancelled_moves_are_one_array(nobody: Muster) -> None:
    refused = DONE | {"verdict": "refused", "text": "It is over."}
    with stranger(in_turn(answered({}), answered(DONE), answered({}), answered(refused))) as url:
        ended = nobody("moves", "cancel", "m-1", "m-2", "--reason", "tried", "-o", "json", "--url", url)
    assert ended.code == ExitCode.CONFLICT
    assert [one["verdict"] for one in ended.json] == ["done", "refused"]


def test_who_is_left_between_two_changes_is_told_how_to_go_on(nobody: Muster) -> None:
    not_now = http("503 No", PROBLEM, "Retry-After: 9")
    with stranger(in_turn(answered({}), answered(DONE), not_now)) as url:
        key = ("--reason", "tried", "--idempotency-key", "k-1")
        ended = nobody("moves", "cancel", "m-1", "m-2", *key, "--url", url)
    assert ended.code == ExitCode.UNREACHABLE
    assert "The same command with --idempotency-key k-1 goes on where it ended." in ended.err


def test_who_is_left_behind_a_proposal_that_is_to_be_carried_out_is_told_how_to_go_on(nobody: Muster) -> None:
    proposed = answered(DONE | {"results": [{"name": "p-1", "error": None, "text": ""}]})
    draft = answered({"phase": "Draft", "step_count": 1})
    gone = http("502 Bad", b"<html>", "Content-Type: text/html")
    words = ("brokers", "fill", "1", "--yes", "--reason", "tried", "--idempotency-key", "k-1")
    with stranger(in_turn(answered({}), proposed, draft, gone)) as url:
        ended = nobody(*words, "--url", url)
    assert ended.code == ExitCode.UNREACHABLE, ended.err
    assert "The same command with --idempotency-key k-1 goes on where it ended." in ended.err


def test_a_full_disk_hides_no_change(nobody: Muster) -> None:
    with stranger(answered(DONE)) as url, Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            nobody.command(*CREATE, "--url", url, "-o", "json"),
            env=nobody.environment,
            cwd=nobody.home,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == ExitCode.REFUSED
    assert "could not be written" in done.stderr and MAYBE in done.stderr
