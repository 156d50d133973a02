"""This room asks the controller: stores a wish as a request, wakes the owner of its lane, hears the answer.

Pages and REST ask by `ask`, which waits for a while; a node asks for its Kafka clients by `Asking`, on its
loop. The row is the audit, too: who, why, what, and what was answered.
"""

import asyncio
import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec
import structlog
from django.db.models import BooleanField, F, Func, Q, Value
from django.db.models.expressions import RawSQL
from django.db.models.fields.json import KeyTextTransform, KeyTransform

from controller.asked_about import ABOUT, About, Verdict, about
from controller.core.requests import KEY, KIND, Asked
from muster.kernel.error_codes import ErrorCode
from muster.messages.limits import MAX_FRAME_FROM_BROKER_BYTES
from muster.messages.link.from_broker import Wish
from muster.messages.link.to_broker import WishAnswer
from runtime import asking, requests, side
from runtime.models import WorkItem
from runtime.ports import CONTROLLER_LANE, DUE, EVERYTHING, Connection, ConnectionLost, NodeContext
from runtime.requests import WITHDRAWN, NewRequest, TooManyOpen
from runtime.work_table import AnsweredRow

ANSWERED: Final = "answered"
"""The wake name after a turn in which requests were answered."""

MOST_STORED_AT_ONCE: Final = side.MOST_WAITING // 2
"""Wishes of a node that its database has not taken yet: it keeps what it was asked, also for who gave up.

They fill half of what may wait there: what is withdrawn finds room behind them.
"""

WITHDRAWN_AGAIN_S: Final = 1.0
"""What nobody waits for is withdrawn once a second, until a database that is away has come back."""

NEVER_STORED_TRIES: Final = 60
"""So often is a row looked for whose commit may be seen late, or never was."""

LAST_LOOK_S: Final = 0.2
"""How often answers are looked for although nothing woke us: a wake-up may be lost."""

_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""The character as JSON, and no text that only looks like it."""

_REFUSAL: Final = f"$.**.error ? (@ != 0 && @ != {ErrorCode.ELECTION_NOT_NEEDED:d})"
"""Where an answer says that something was refused, as PostgreSQL finds it without sending us megabytes."""

_IS_REFUSED: Final = Func(
    F("result"),
    Value(_REFUSAL),
    template="jsonb_path_exists(%(expressions)s::jsonpath)",
    output_field=BooleanField(),
)
_DONE_OF_ALL: Final = "$.**.error ? (@ == 0)"
_DONE: Final = f"$.**.error ? (@ == 0 || @ == {ErrorCode.ELECTION_NOT_NEEDED:d})"
"""Where it says that something was done; of an election of all those that needed none do not count."""

_IS_DONE: Final = RawSQL(
    "jsonb_path_exists(result,"
    " (CASE payload #> '{wish,partitions}' WHEN 'null' THEN %s ELSE %s END)::jsonpath)",
    (_DONE_OF_ALL, _DONE),
    output_field=BooleanField(),
)
_ADOPTED: Final = Q(state=WorkItem.State.ADOPTED)
STATES: Final = {
    "waiting": ~_ADOPTED,
    "answered": _ADOPTED & Q(error=""),
    "done": _ADOPTED & Q(error="", refused=False),
    "refused": _ADOPTED & Q(error="", refused=True),
    "failed": _ADOPTED & ~Q(error=""),
}
"""Requests by what became of them; `refused`: at least something of them was, `done`: nothing was."""

_MAY_BE_DONE = "a request that nobody waits for could not be withdrawn before the end: it may be done yet"

log = structlog.get_logger(__name__)


class NoAnswer(Exception):
    """Nobody answered; whether the controller has decided the wish is unknown."""


class _Unseen(NoAnswer):
    """The row is not there yet, or never will be."""


class Unstorable(Exception):
    """The wish holds U+0000, which the database takes in no text."""


class TooLarge(Exception):
    """The wish is larger than what a broker may forward."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request as pages and REST tell it. Without an answer it waits, or `failed` says why there is none."""

    id: uuid.UUID
    principal: str
    reason: str
    wish: Wish
    answer: WishAnswer | None
    failed: str
    asked_at: datetime
    answered_at: datetime | None


def ask(wish: Wish, principal: str, reason: str, idempotency_key: str | None = None) -> Request:
    """Ask, and wait for the answer for a while. The same key and the same request have the same answer.

    Raises TooLarge, Unstorable, runtime.requests.AnotherAsked and TooManyOpen.
    """
    return _read(asking.ask(_row(wish, principal, reason, idempotency_key)))


def request_of(request_id: uuid.UUID) -> Request | None:
    """The request with this id."""
    row = WorkItem.objects.filter(id=request_id, kind=KIND).first()
    return None if row is None else _read(row)


def asked_under(principal: str, idempotency_key: str) -> Request | None:
    """What this principal asked for under the key already, whatever became of what it was about."""
    row = WorkItem.objects.filter(kind=KIND, principal=principal, idempotency_key=idempotency_key).first()
    return None if row is None else _read(row)


@dataclass(frozen=True, slots=True)
class ListedRequest:
    """A request without what it says, which may be megabytes; `kind` is the wish's name.

    `about`: the first things that it names, of `about_count`.
    """

    id: uuid.UUID
    kind: str
    principal: str
    reason: str
    answered: bool
    failed: str
    asked_at: datetime
    answered_at: datetime | None
    verdict: Verdict
    about: tuple[About, ...]
    about_count: int

    @property
    def more(self) -> int:
        """How many more things it names than `about` does."""
        return self.about_count - len(self.about)


def requests_after(
    after: tuple[datetime, uuid.UUID] | None,
    limit: int,
    principal: str | None = None,
    *,
    contains: str = "",
    kind: str = "",
    state: str = "",
) -> list[ListedRequest]:
    """Requests of everybody, or of one principal, newest first, after the one of this time and id.

    `contains`: in who asked or why, in capitals or not. `kind`: the wish's name. `state`: one of STATES.
    """
    named = KeyTextTransform("type", KeyTransform("wish", "payload"))
    rows = WorkItem.objects.filter(kind=KIND).annotate(wish=named).order_by("-offered_at", "-id")
    if principal is not None:
        rows = rows.filter(principal=principal)
    if contains:
        rows = rows.filter(Q(principal__icontains=contains) | Q(reason__icontains=contains))
    if kind:
        rows = rows.filter(wish=kind)
    rows = rows.annotate(refused=_IS_REFUSED, done=_IS_DONE)
    if state:
        rows = rows.filter(STATES[state])
    if after is not None:
        at, last = after
        rows = rows.filter(offered_at__lte=at).exclude(offered_at=at, id__gte=last)
    listed = rows.annotate(said=ABOUT).values_list(
        *("id", "wish", "principal", "reason", "state", "error", "offered_at", "adopted_at"),
        *("said", "refused", "done"),
    )
    return [_listed(*row) for row in listed[:limit]]


def _listed(
    request_id: uuid.UUID,
    wish: str | None,
    principal: str,
    reason: str,
    state: str,
    error: str,
    asked_at: datetime,
    adopted_at: datetime | None,
    said: Mapping[str, Any],
    refused: bool | None,
    done: bool | None,
) -> ListedRequest:
    answered = state == WorkItem.State.ADOPTED
    if not answered:
        verdict = Verdict.WAITING
    elif error:
        verdict = Verdict.FAILED
    elif refused:
        verdict = Verdict.PARTLY_DONE if done else Verdict.REFUSED
    else:
        verdict = Verdict.WOULD_BE_DONE if said["is_trial"] else Verdict.DONE
    return ListedRequest(
        request_id,
        wish or "",
        principal,
        reason,
        answered,
        error if answered else "",
        asked_at,
        adopted_at if answered else None,
        verdict,
        *about(said),
    )


class Asking:
    """Asks from a node's loop; one look at the rows is for all who wait."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self._waiting: dict[str, asyncio.Future[AnsweredRow]] = {}
        self._woken = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._withdrawing: set[asyncio.Task[None]] = set()
        self._storing = 0
        self._stops = asyncio.Event()

    async def ask(self, wish: Wish, principal: str, reason: str, timeout_s: float) -> WishAnswer:
        """The controller's answer. What nobody has decided by the end of the timeout is withdrawn, and where
        that cannot be written its row says that nobody waits any more.

        Raises NoAnswer, TooLarge, Unstorable.
        """
        until = asyncio.get_running_loop().time() + timeout_s
        request_id = await self._stored(_row(wish, principal, reason, None), until)
        answered: asyncio.Future[AnsweredRow] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = answered
        self._node.wake(DUE, f"{KIND} {KEY}")
        self._look()
        try:
            async with asyncio.timeout_at(until):
                found = await answered
        except TimeoutError:
            try:
                found = await self._withdrawn(request_id)
            except (NoAnswer, asyncio.CancelledError):
                # The connection was lost, or had no room: what waits yet would be carried out an hour later.
                self._withdraw_soon(request_id)
                raise
        except asyncio.CancelledError:
            self._withdraw_soon(request_id)
            raise
        finally:
            self._waiting.pop(request_id, None)
        if found.error:
            raise NoAnswer(found.error)
        return _answer(found.answer)

    async def _stored(self, row: NewRequest | None, until: float) -> str:
        """Its id. Raises NoAnswer, and then it is not stored, or is withdrawn as soon as anybody can: a
        database that stands still may go on in an hour, and no topic is to be deleted then for whoever was
        told that nobody answers. An owner that looks before that refuses it, as it is late.
        """
        loop = asyncio.get_running_loop()
        is_wanted, request_id = True, ""

        def store(connection: Connection) -> str:
            nonlocal request_id
            wanted = row
            if wanted is not None:
                request_id = _store(connection, replace(wanted, waits_s=max(0.0, until - loop.time())))
            if not is_wanted:
                # Raised before the commit, it takes back what a server has stored that stood still meanwhile.
                raise NoAnswer(WITHDRAWN)
            return request_id

        def take_back(asked: "asyncio.Future[str]") -> None:
            if asked.cancelled():
                # The loop ends.
                return
            # Of a connection that was lost in the commit nobody knows whether it was done.
            problem = asked.exception()
            if request_id and (problem is None or isinstance(problem, ConnectionLost)):
                self._withdraw_soon(request_id)

        if self._storing >= MOST_STORED_AT_ONCE:
            raise NoAnswer("too many requests wait for the database")
        asked = asyncio.ensure_future(self._node.query(store))
        self._storing += 1
        asked.add_done_callback(self._no_longer_stored)
        try:
            async with asyncio.timeout_at(until):
                stored: str = await asyncio.shield(asked)
        except (ConnectionLost, TooManyOpen) as problem:
            take_back(asked)
            raise NoAnswer(str(problem) or "too many requests wait for the controller") from problem
        except asyncio.CancelledError:
            # Its commit may be under way, which nobody can stop: then it is withdrawn right behind.
            asked.add_done_callback(take_back)
            raise
        except TimeoutError:
            asked.add_done_callback(take_back)
            raise NoAnswer("the database did not take the request in time") from None
        finally:
            # Nor is it kept in the thread's queue.
            is_wanted, row = False, None
        return stored

    def _no_longer_stored(self, _asked: "asyncio.Future[str]") -> None:
        self._storing -= 1

    def _withdraw_soon(self, request_id: str) -> None:
        task = asyncio.create_task(self._withdraw(request_id))
        self._withdrawing.add(task)
        task.add_done_callback(self._withdrawing.discard)

    async def _withdraw(self, request_id: str) -> None:
        """Until it has an answer: the database may be away for hours, and a commit may be seen late.

        A node that stops tries once more, and then says what may be carried out though nobody waits for it.
        """
        unseen, told = 0, ""
        while unseen < NEVER_STORED_TRIES:
            is_last = self._stops.is_set()
            try:
                await self._withdrawn(request_id)
            except NoAnswer as problem:
                unseen += isinstance(problem, _Unseen)
                if is_last:
                    log.warning(_MAY_BE_DONE, id=request_id, why=str(problem))
                    return
                if told != (told := str(problem)):
                    log.info("a request that nobody waits for is there still", id=request_id, why=told)
            except asyncio.CancelledError:
                log.warning(_MAY_BE_DONE, id=request_id, why="the database has not answered")
                raise
            except Exception:
                log.exception("a request that nobody waits for could not be withdrawn", id=request_id)
                return
            else:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(WITHDRAWN_AGAIN_S):
                    await self._stops.wait()

    def woken(self, name: str) -> None:
        """A wake-up came."""
        if name in (ANSWERED, EVERYTHING):
            self._woken.set()

    def stop(self) -> None:
        """Look no more; whoever waits is about to be hung up on. What is withdrawn is tried once more."""
        if self._looking is not None:
            self._looking.cancel()
        self._stops.set()

    async def _withdrawn(self, request_id: str) -> AnsweredRow:
        """Its answer after all, or that it has none and never will."""

        def withdraw(connection: Connection) -> list[AnsweredRow]:
            requests.give_up(connection, request_id, WITHDRAWN)
            return requests.answers(connection, [request_id])

        try:
            found: list[AnsweredRow] = await self._node.query(withdraw)
        except ConnectionLost as problem:
            raise NoAnswer(str(problem)) from problem
        if not found:
            raise _Unseen("nobody sees its row")
        return found[0]

    def _look(self) -> None:
        self._woken.set()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._hear(), name="hear what the controller answers")

    async def _hear(self) -> None:
        while self._waiting:
            self._woken.clear()
            try:
                ids = list(self._waiting)
                found = await self._node.query(partial(_answers, ids=ids))
            except ConnectionLost as problem:
                log.info("answers could not be read", problem=str(problem))
                found = []
            for row in found:
                waiter = self._waiting.pop(row.id, None)
                if waiter is not None and not waiter.done():
                    waiter.set_result(row)
            try:
                async with asyncio.timeout(LAST_LOOK_S):
                    await self._woken.wait()
            except TimeoutError:
                continue


def _store(connection: Connection, row: NewRequest) -> str:
    with connection.cursor() as cursor:
        return requests.store(cursor, row)


def _answers(connection: Connection, ids: list[str]) -> list[AnsweredRow]:
    return requests.answers(connection, ids)


def _row(wish: Wish, principal: str, reason: str, idempotency_key: str | None) -> NewRequest:
    encoded = msgspec.json.encode(wish)
    if len(encoded) > MAX_FRAME_FROM_BROKER_BYTES:
        raise TooLarge
    if _NUL.search(encoded):
        raise Unstorable
    if "principal" in wish.__struct_fields__:
        wish = msgspec.structs.replace(wish, principal=principal)
    return NewRequest(
        kind=KIND,
        lane=CONTROLLER_LANE,
        key=KEY,
        principal=principal,
        reason=reason,
        payload=Asked(wish),
        idempotency_key=idempotency_key,
    )


def _answer(result: object) -> WishAnswer:
    answer: WishAnswer = msgspec.convert(result, WishAnswer, str_keys=True)
    return answer


def _read(row: WorkItem) -> Request:
    answered = row.state == WorkItem.State.ADOPTED
    return Request(
        id=row.id,
        principal=row.principal,
        reason=row.reason,
        wish=msgspec.convert(row.payload, Asked, str_keys=True).wish,
        answer=_answer(row.result) if answered and row.result is not None else None,
        failed=row.error if answered else "",
        asked_at=row.offered_at,
        answered_at=row.adopted_at if answered else None,
    )
