"""This room asks for a change: on the version that was read, under a key, and tells what became of it."""

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from muster.cli.failures import ExitCode, Failure
from muster.cli.rest import Answer, named
from muster.cli.screen import Column, Output
from muster.cli.session import Session
from muster.cli.words import NOTHING, plain

LOOK_S: Final = 0.5
"""Between two looks at what goes on behind an answer."""

PATIENCE_S: Final = 60.0
"""For so long whoever waits bears that nobody answers: a web process that starts anew ends no wait."""

_NO_REFUSALS: Final = (None, "ELECTION_NOT_NEEDED")
_REFUSALS_TOLD: Final = 3
"""Of those that the table above names all."""

_REFUSED: Final = ("refused", "failed", "changed meanwhile", "partly done")
_CHANGES: Final = [
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", number=True),
    Column("BEFORE", "before", number=True),
    Column("AFTER", "after", number=True),
    Column("CHANGE", lambda row: _difference(row), number=True),
    Column("NOTE", "note"),
]
_RESULTS: Final = [
    Column("WHAT", "kind"),
    Column("NAME", "name"),
    Column("PARTITION", "partition", number=True),
    Column("ERROR", "error"),
    Column("TEXT", "text"),
]


def tag_of(session: Session, path: str, *, is_nameable: bool = True) -> str:
    """The version that is meant: as it was said, or as it is now. Raises Failure.

    What is not there may be gone by the same command under the same key: then that is told. `is_nameable`: a
    command of several changes takes no version, as each of them is made on another.
    """
    said = session.asking.if_match.strip()
    if said:
        return said if said == "*" or said.endswith('"') else f'"{said}"'
    found = session.rest.found(path) if session.asking.key else session.rest.get(path)
    return "*" if found is None else version_of(session, found, is_nameable=is_nameable)


def version_of(session: Session, found: Answer, *, is_nameable: bool) -> str:
    """The version that was just read. Raises Failure if nobody told it: then nothing may be overwritten."""
    if not found.tag:
        advice = "Something in between takes it away: ask past it"
        advice = f"{advice}, or say --if-match '*'." if is_nameable else f"{advice}."
        raise Failure(
            ExitCode.UNREACHABLE, f"{session.place.url} does not say which version that is (ETag).", advice
        )
    return found.tag


def ask(
    session: Session,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    tag: str = "",
    step: int = 0,
    is_first: bool = False,
    again: str = "",
    **parameters: object,
) -> dict[str, Any]:
    """Ask for it, follow it if it is to be waited for, and give the request as it ended. Raises Failure.

    `step` counts the changes of one command that asks for several: each has its own key, and the version that
    it is asked on is none that people could name. `is_first` of several, under the key of the command itself:
    what fails behind it says how to go on. `again`: words with which the same is asked later.
    """
    key = f"{session.key}-{step}" if step else session.key
    words = f"--idempotency-key {session.key}" + (f" --if-match '{tag}'" if tag and not step else "")
    words = f"{words} {again}".strip()
    advice = f"It may have been carried out. The same command with {words} does it once in all."
    goes_on = f"The same command with {words} goes on where it ended." if step or is_first else ""
    session.asked, session.to_go_on = advice, ""
    try:
        answer = session.rest.send(method, path, key, body=body, tag=tag, **parameters)
        if not {"request", "verdict"} <= answer.body.keys():
            raise session.rest.strange(f"it answered {answer.status} without saying what became of it")
    except Failure as failure:
        if not (failure.is_unknown or failure.code is ExitCode.UNREACHABLE):
            raise
        known = advice if failure.is_unknown else f"Nothing was changed by it. {goes_on}"
        known = f"{failure.advice} {known}".strip()
        raise Failure(failure.code, failure.text, known, failure.details) from failure
    except KeyboardInterrupt:
        raise Failure(ExitCode.INTERRUPTED, "Interrupted before there was an answer.", advice) from None
    told = _followed(session, answer) if answer.status == 202 else answer.body
    session.to_go_on = goes_on
    return told | {"idempotency_key": key}


def tell(session: Session, request: dict[str, Any]) -> None:
    """Write what became of a request. Raises Failure if it was not carried out, or not yet."""
    written = session.screen.one(request, [], request["request"]) if request else False
    verdict = request.get("verdict")
    if written:
        _tell_people(session, request)
    if verdict in (None, "waiting"):
        raise Failure(
            ExitCode.UNANSWERED,
            f"It was accepted as request {request['request']}, and has no answer yet.",
            f"Follow it: muster requests show {request['request']} --wait",
        )
    if verdict in _REFUSED:
        raise Failure(_code_of(request), f"{verdict.capitalize()}: {_why(request)}")


def _tell_people(session: Session, request: dict[str, Any]) -> None:
    screen = session.screen
    if request.get("changes"):
        screen.table(request["changes"], _CHANGES)
    if request.get("text"):
        screen.line(request["text"])
    results = request.get("results") or []
    if any(one["error"] or one["text"] for one in results):
        screen.table(results, _RESULTS)
    if request.get("verdict") not in (None, "waiting", *_REFUSED):
        screen.note(f"{str(request['verdict']).capitalize()}; request {request['request']}.")


def follow(session: Session, look: Callable[[], tuple[str, bool]], what: str, later: str) -> None:
    """Look until it is over, and say each time that something moved; Ctrl-C leaves it as it is.

    `look` gives a line and whether that is the end; `later` is the command that looks again. Raises Failure,
    of nobody who answers only after PATIENCE_S.
    """
    told, heard = "", time.monotonic()
    try:
        while True:
            try:
                line, over = look()
            except Failure as failure:
                if failure.code is ExitCode.UNREACHABLE and time.monotonic() - heard < PATIENCE_S:
                    time.sleep(LOOK_S)
                    continue
                advice = f"{failure.advice} {what} may go on all the same. Look at it: {later}".strip()
                raise Failure(failure.code, failure.text, advice, failure.details) from failure
            heard = time.monotonic()
            if line != told:
                session.screen.note(line)
                told = line
            if over:
                return
            time.sleep(LOOK_S)
    except KeyboardInterrupt:
        raise Failure(ExitCode.INTERRUPTED, f"{what} goes on.", f"Look at it: {later}") from None


def request_of(session: Session, request_id: str) -> dict[str, Any]:
    """A request about a group or to the controller, by its id. Raises Failure."""
    found = session.rest.found(named("controller", "requests", request_id))
    return (found or session.rest.get(named("request", request_id))).body


def followed_request(session: Session, request_id: str, first: dict[str, Any]) -> dict[str, Any]:
    """The request when it was answered. Raises Failure."""
    seen = first

    def look() -> tuple[str, bool]:
        nonlocal seen
        if seen["verdict"] in (None, "waiting"):
            seen = request_of(session, request_id)
        over = seen["verdict"] not in (None, "waiting")
        return (f"Request {request_id}: {seen['verdict'] or 'waiting'}.", over)

    follow(session, look, f"Request {request_id}", f"muster requests show {request_id} --wait")
    return seen


def _followed(session: Session, answer: Answer) -> dict[str, Any]:
    if not session.asking.wait:
        return answer.body
    return followed_request(session, str(answer.body["request"]), answer.body)


def _code_of(request: dict[str, Any]) -> ExitCode:
    errors = {request.get("error"), *(one["error"] for one in request.get("results") or ())} - {None}
    if request["verdict"] in ("failed", "partly done"):
        return ExitCode.REFUSED
    if errors and all(
        str(one).startswith(("UNKNOWN_TOPIC", "UNKNOWN_MEMBER", "GROUP_ID_NOT")) for one in errors
    ):
        return ExitCode.NOT_FOUND
    return ExitCode.CONFLICT


def _why(request: dict[str, Any]) -> str:
    if request.get("text"):
        return str(request["text"])
    refused = [one for one in request.get("results") or () if one["error"] not in _NO_REFUSALS]
    told = " ".join(f"{_called(one)}: {one['text']}" for one in refused[:_REFUSALS_TOLD])
    more = len(refused) - _REFUSALS_TOLD
    return f"{told} And {more} more." if more > 0 else told


def _called(result: dict[str, Any]) -> str:
    number = result.get("partition")
    return str(result["name"]) if number is None else f"{result['name']}-{number}"


def _difference(row: dict[str, Any]) -> str:
    if row["before"] is None or row["after"] is None:
        return NOTHING
    return f"{row['after'] - row['before']:+d}"


def judged(
    session: Session, method: str, path: str, body: Mapping[str, Any], *, tag: str = "", dry: str = "dry_run"
) -> None:
    """Show somebody who is to decide what would come of it. Raises Failure if it would be refused.

    Not under a key that was said: it may be refused because it was carried out under it, which is told then.
    """
    key = uuid.uuid4().hex
    try:
        answer = session.rest.send(method, path, key, body={**body, dry: True}, tag=tag)
    except Failure:
        if not session.asking.key:
            raise
        return
    request = followed_request(session, str(answer.body["request"]), answer.body)
    if request["verdict"] in _REFUSED:
        if session.asking.key:
            return
        raise Failure(_code_of(request), f"{str(request['verdict']).capitalize()}: {_why(request)}")
    if session.screen.output is Output.TABLE:
        _tell_people(session, request)
    elif not session.screen.quiet:
        session.screen.note(plain(request.get("text") or ""))
