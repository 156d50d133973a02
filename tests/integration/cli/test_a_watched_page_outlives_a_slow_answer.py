"""What `--watch` shows stays where it stands while the next look is waited for, and when it fails."""

import errno
import os
import pty
import signal

from muster.cli.failures import ExitCode
from tests.integration.cli.conftest import Muster
from tests.integration.cli.odd_server import Answer, http, silent, stranger
from tests.integration.cli.test_no_server_is_too_odd import PROBLEM

EMPTIED, NEVER = b"\x1b[2J", b"\x00"
LOOK = ("groups", "list", "--watch", "--interval", "0.2")


def in_turn(asked: list[bytes], first: Answer, rest: Answer) -> Answer:
    """The first who asks hears one answer, everybody behind him the other."""
    return lambda connection: (first if len(asked) == 1 else rest)(connection)


def watched(muster: Muster, asked: list[bytes], url: str, until: bytes, looks: int = 1) -> tuple[int, bytes]:
    """How it ended and what a terminal was told: Ctrl-C comes once `until` stands there, and behind so many
    looks.
    """
    ours, theirs = pty.openpty()
    process = muster.begin(*LOOK, "--url", url, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    try:
        while until not in seen and (part := said(ours)):
            seen += part
        while len(asked) < looks and process.poll() is None:
            pass
        process.send_signal(signal.SIGINT)
        while part := said(ours):
            seen += part
        return process.wait(60), seen
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def said(terminal: int) -> bytes:
    """The next words; empty once nobody has the other end any more."""
    try:
        return os.read(terminal, 65_536)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return b""


def test_it_stays_while_nobody_answers_the_next_look(nobody: Muster) -> None:
    """The terminal was empty for as long as the answer took: two minutes on a link that hangs."""
    asked: list[bytes] = []
    with stranger(in_turn(asked, http("200 OK", b'{"items": []}'), silent), asked=asked) as url:
        code, seen = watched(nobody, asked, url, b"There is none.", looks=2)
    assert code == ExitCode.DONE and seen.count(EMPTIED) == 1, seen
    assert b"There is none." in seen.partition(EMPTIED)[2]


def test_it_stands_above_what_went_wrong_with_its_age(nobody: Muster) -> None:
    """It was taken away, and nothing but the failure was left."""
    asked: list[bytes] = []
    wrong = http("503 No", PROBLEM, "Retry-After: 9")
    with stranger(in_turn(asked, http("200 OK", b'{"items": []}'), wrong), asked=asked) as url:
        code, seen = watched(nobody, asked, url, b"muster: It is so.")
    above = seen.partition(b"muster: It is so.")[0].rpartition(EMPTIED)[2]
    assert code == ExitCode.DONE and b"There is none." in above and b"s ago." in above, seen


def test_a_first_look_that_fails_takes_nothing_away(nobody: Muster) -> None:
    with stranger(http("404 Not Found", PROBLEM)) as url:
        code, seen = watched(nobody, [], url, NEVER, looks=0)
    assert code == ExitCode.NOT_FOUND and EMPTIED not in seen, seen
