"""Whatever a server answers, to whatever command: words, a documented exit code, JSON that is JSON."""

import json
import math
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from muster.cli.failures import ExitCode
from tests.integration.cli.conftest import Muster, Said
from tests.integration.cli.odd_server import (
    Answer,
    endless,
    http,
    said,
    silent,
    stranger,
    trickling,
)
from tests.tidy.sources import ROOT

CERTIFICATES = ROOT / "tests" / "unit" / "kafkaserver" / "certificates"
TOKEN = "mst_AbCdEfGh_secret"
PROBLEM = b'{"title": "No", "detail": "It is so."}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
ODD: dict[str, tuple[Answer, tuple[ExitCode, ...]]] = {
    "nothing to say": (said(b"HTTP/1.1 204 No Content\r\n\r\n"), (ExitCode.REFUSED, ExitCode.UNREACHABLE)),
    "unauthorized": (http("401 Unauthorized", PROBLEM), (ExitCode.NOT_ALLOWED,)),
    "unauthorized, without a word": (http("401 Unauthorized", b""), (ExitCode.NOT_ALLOWED,)),
    "forbidden": (http("403 Forbidden", PROBLEM), (ExitCode.NOT_ALLOWED,)),
    "not found": (http("404 Not Found", PROBLEM), (ExitCode.NOT_FOUND,)),
    "conflict": (http("409 Conflict", PROBLEM), (ExitCode.CONFLICT,)),
    "changed": (http("412 Precondition Failed", PROBLEM), (ExitCode.CONFLICT,)),
    "which version": (http("428 Precondition Required", PROBLEM), (ExitCode.CONFLICT,)),
    "too many": (http("429 Too Many", PROBLEM, "Retry-After: 0"), (ExitCode.UNREACHABLE,)),
    "too many, for long": (http("429 Too Many", PROBLEM, "Retry-After: 3600"), (ExitCode.UNREACHABLE,)),
    "too many, until a date": (
        http("429 Too Many", PROBLEM, "Retry-After: Fri, 01 Jan 2100 00:00:00 GMT"),
        (ExitCode.UNREACHABLE,),
    ),
    "a page of a mistake": (http("500 Oh", b"<html>", "Content-Type: text/html"), (ExitCode.UNREACHABLE,)),
    "a mistake": (http("500 Oh", PROBLEM), (ExitCode.REFUSED,)),
    "a proxy's page": (http("502 Bad", b"<html>", "Content-Type: text/html"), (ExitCode.UNREACHABLE,)),
    "not now": (http("503 No", PROBLEM), (ExitCode.UNREACHABLE,)),
    "cut in the middle": (said(HEAD + b'Content-Length: 100\r\n\r\n{"it'), (ExitCode.UNREACHABLE,)),
    "cut in a chunk": (
        said(HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{"),
        (ExitCode.UNREACHABLE,),
    ),
    "cut in the head": (said(b"HTTP/1.1 200 OK\r\nContent-"), (ExitCode.UNREACHABLE,)),
    "packed wrongly": (http("200 OK", b"{}", "Content-Encoding: gzip"), (ExitCode.UNREACHABLE,)),
    "an array": (http("200 OK", b"[1, 2]"), (ExitCode.UNREACHABLE,)),
    "words": (http("200 OK", b'"yes"'), (ExitCode.UNREACHABLE,)),
    "items of numbers": (
        http("200 OK", b'{"items": [7, null], "next": null}'),
        (ExitCode.REFUSED, ExitCode.UNREACHABLE),
    ),
    "no number": (http("200 OK", b'{"items": [{"lag": NaN}]}'), (ExitCode.UNREACHABLE,)),
    "too large a number": (http("200 OK", b'{"items": [{"lag": 1e999}]}'), (ExitCode.UNREACHABLE,)),
    "results of numbers": (http("409 Conflict", b'{"detail": "No", "results": 7}'), (ExitCode.CONFLICT,)),
    "the same page again": (
        http("200 OK", b'{"items": [{}], "next": "there"}'),
        (ExitCode.UNREACHABLE, ExitCode.REFUSED),
    ),
    "without an end": (endless(HEAD + b"\r\n{", b" " * 1_000_000), (ExitCode.UNREACHABLE,)),
    "a body that trickles": (trickling(HEAD + b"Content-Length: 1000000\r\n\r\n"), (ExitCode.UNREACHABLE,)),
    "a body that trickles, of any length": (trickling(HEAD + b"\r\n{"), (ExitCode.UNREACHABLE,)),
    "a head that trickles": (trickling(HEAD + b"X: "), (ExitCode.UNREACHABLE,)),
    "never": (silent, (ExitCode.UNREACHABLE,)),
    "elsewhere": (http("307 There", b"", "Location: http://127.0.0.1:1/"), (ExitCode.USAGE,)),
}
READS = ("groups", "list")
WRITES = ("topics", "create", "orders", "--reason", "tried")
IN_TIME = ("--timeout", "0.3")
WITHOUT_END = {
    "without an end",
    "a body that trickles",
    "a body that trickles, of any length",
    "a head that trickles",
    "never",
}


def in_time(kind: str) -> tuple[str, ...]:
    """Whatever comes may take its time; what never comes, or never ends, is waited for for a moment."""
    return IN_TIME if kind in WITHOUT_END else ()


def strictly(text: str) -> object:
    """JSON, of which Python's reader takes more than there is."""
    return json.loads(text, parse_constant=lambda word: math.nan / 0 if word else None)


def in_words(ended: Said, codes: Sequence[ExitCode]) -> None:
    """It ended as documented, with words and without a secret; what it answered is JSON, or nothing."""
    assert ended.code in codes, (ended.code, ended.err)
    assert "Traceback" not in ended.err and TOKEN not in ended.out + ended.err
    assert "muster: " in ended.err
    if ended.out:
        strictly(ended.out)


@pytest.fixture(scope="module")
def outcomes(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[dict[tuple[str, tuple[str, ...]], Future[Said]]]:
    """How each command ends at each server that is asked for: beside each other, for they mostly pause."""
    nobody = Muster(tmp_path_factory.mktemp("nobody"))

    def run(kind: str, words: tuple[str, ...]) -> Said:
        with stranger(ODD[kind][0]) as url:
            return nobody(*words, "--url", url, "--token", TOKEN, "-o", "json", *in_time(kind))

    params: list[dict[str, Any]] = [
        dict(one.callspec.params)
        for one in request.session.items
        if isinstance(one, pytest.Function)
        and one.originalname == test_an_odd_answer_is_told_in_words.__name__
    ]
    with ThreadPoolExecutor(8) as pool:
        yield {(one["kind"], one["words"]): pool.submit(run, one["kind"], one["words"]) for one in params}


@pytest.mark.parametrize("words", [READS, WRITES], ids=["looking", "changing"])
@pytest.mark.parametrize("kind", ODD)
def test_an_odd_answer_is_told_in_words(
    outcomes: dict[tuple[str, tuple[str, ...]], Future[Said]], kind: str, words: tuple[str, ...]
) -> None:
    in_words(outcomes[kind, words].result(), ODD[kind][1])


@pytest.mark.parametrize(
    "kind", ["nothing to say", "unauthorized", "items of numbers", "without an end", "never", "elsewhere"]
)
def test_a_doctor_says_what_is_wrong(nobody: Muster, kind: str) -> None:
    with stranger(ODD[kind][0]) as url:
        ended = nobody("doctor", "--url", url, "--token", TOKEN, "-o", "json", *in_time(kind))
    in_words(ended, (ExitCode.REFUSED,))
    assert any(row["state"] == "wrong" for row in ended.json)


@pytest.mark.parametrize("kind", ["never", "not now", "forbidden", "cut in the middle", "an array"])
def test_what_was_never_seen_is_not_watched(nobody: Muster, kind: str) -> None:
    answer, codes = ODD[kind]
    with stranger(answer) as url:
        in_words(nobody(*READS, "--watch", "--url", url, *in_time(kind)), codes)


def test_an_outage_ends_no_watch(nobody: Muster) -> None:
    answers = iter([http("200 OK", b'{"items": []}')])
    wrong = http("503 No", PROBLEM, "Retry-After: 9")

    def answer(connection: object) -> None:
        next(answers, wrong)(connection)  # type: ignore[arg-type]

    with stranger(answer) as url:
        watching = nobody.begin(*READS, "--watch", "--interval", "0.2", "--url", url)
        assert watching.stderr is not None
        seen = [line for line, _ in zip(watching.stderr, range(7), strict=False)]
        watching.send_signal(signal.SIGINT)
        _, rest = watching.communicate(timeout=60)
    assert seen[0] == "There is none.\n" and seen.count("muster: It is so.\n") == 2, seen
    assert watching.returncode == ExitCode.DONE and "Traceback" not in rest


@pytest.mark.parametrize("head", [HEAD + b"Content-Length: 1000000\r\n\r\n{", HEAD + b"\r\n{"])
def test_an_answer_that_trickles_is_told_as_too_slow(nobody: Muster, head: bytes) -> None:
    with stranger(trickling(head)) as url:
        ended = nobody(*READS, *IN_TIME, "--url", url)
    assert "did not answer within 0.3 s" in ended.err and "JSON" not in ended.err, ended.err


def test_a_token_follows_nobody_elsewhere(nobody: Muster) -> None:
    there: list[bytes] = []
    with stranger(silent, asked=there) as other:
        for words in (READS, WRITES):
            with stranger(http("307 There", b"", f"Location: {other}/api/v1/topics")) as url:
                ended = nobody(*words, "--url", url, "--token", TOKEN)
            in_words(ended, (ExitCode.USAGE,))
            assert other in ended.err and "--url" in ended.err
    assert there == []


def test_how_long_it_wants_to_be_left_alone_is_told(nobody: Muster) -> None:
    with stranger(http("503 No", PROBLEM, "Retry-After: 3600")) as url:
        ended = nobody(*READS, "--url", url)
    in_words(ended, (ExitCode.UNREACHABLE,))
    assert "for 3600 s" in ended.err and "asking again" not in ended.err


@pytest.mark.parametrize(
    ("name", "trusted", "to_do"),
    [
        ("first", False, "Name the authority that signed its certificate: --ca-file"),
        ("elsewhere", True, "Name it as its certificate does"),
        ("expired", True, "Name it as its certificate does, which must be good today"),
    ],
)
def test_a_certificate_that_is_not_believed_is_looked_at_once(
    nobody: Muster, name: str, trusted: bool, to_do: str
) -> None:
    asked: list[bytes] = []
    known = ("--ca-file", CERTIFICATES / f"{name}.crt") if trusted else ()
    with stranger(http("200 OK", PROBLEM), CERTIFICATES / name, asked) as url:
        ended = nobody(*WRITES, "--url", url, "--token", TOKEN, *known)
    in_words(ended, (ExitCode.UNREACHABLE,))
    assert to_do in ended.err and "asking again" not in ended.err
    assert "Nothing was changed by it." in ended.err and asked == []


def test_a_named_authority_is_believed(nobody: Muster) -> None:
    with stranger(http("200 OK", b'{"items": []}'), CERTIFICATES / "first") as url:
        ended = nobody(*READS, "--url", url, "--token", TOKEN, "--ca-file", CERTIFICATES / "first.crt")
    assert (ended.code, ended.err) == (0, "There is none.\n")


@pytest.mark.parametrize("host", ["nobody.invalid", "a" * 64 + ".example", "ex..ample", "xn--a.example"])
def test_a_name_that_nobody_has(nobody: Muster, host: str) -> None:
    ended = nobody(*READS, "--url", f"https://{host}", *IN_TIME)
    in_words(ended, (ExitCode.UNREACHABLE, ExitCode.USAGE))
    assert host in ended.err
