"""This room says which fingerprint belongs to which page, and whose session a handshake carries."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any, TypeVar

from django.conf import settings
from django.contrib.auth import get_user
from django.db import DEFAULT_DB_ALIAS, DatabaseError, close_old_connections, connections
from django.http import HttpRequest
from django.http.request import split_domain_port, validate_host

from access import sessions
from access.grants import Operation
from access.service import user_may
from controller import fingerprints as of_cluster
from controller.fingerprints import CLUSTER, TOPIC
from groups import fingerprints as of_groups
from groups.fingerprints import GROUP, GROUPS, OVERVIEW
from runtime import database_clock
from web import journal_rows
from web.desks import end_thread
from web.journal_rows import JOURNAL
from web.live import Scope, Unknown

Result = TypeVar("Result")

HANDSHAKES_AT_ONCE = 2
ANSWER_WITHIN_MS = 6_000
MOST_WAITING = 1_000
"""Handshakes, and pages that ask whether they may go on, that wait for the database. Nobody can take back
what a thread was asked: where the database stands still each is kept until it goes on, and strangers come
again.
"""


class Watching:
    """What the live pages ask of the database, in threads of their own: they never wait for a page's desk."""

    def __init__(self) -> None:
        self._looking = ThreadPoolExecutor(1, thread_name_prefix="look")
        self._greeting = ThreadPoolExecutor(HANDSHAKES_AT_ONCE, thread_name_prefix="greet")
        self._waiting = 0
        self._databases: set[Any] = set()
        """The connections of these threads."""

    async def fingerprints(self, watched: frozenset[str]) -> Mapping[str, str]:
        """The fingerprint of each watched page. Raises whatever the database makes of it."""
        return await self._in(self._looking, lambda: _fingerprints(watched))

    async def person_of(self, scope: Scope) -> str | None:
        """The name of the signed-in person of a handshake who may view; None for anybody else.

        It counts as use of the session. Raises Unknown if the database does not say.
        """
        if self._waiting >= MOST_WAITING:
            raise Unknown
        self._waiting += 1
        gave_up = False
        asked = asyncio.ensure_future(self._in(self._greeting, lambda: None if gave_up else _person(scope)))
        asked.add_done_callback(self._answered)
        try:
            async with asyncio.timeout(ANSWER_WITHIN_MS / 1000):
                return await asyncio.shield(asked)
        except (DatabaseError, TimeoutError) as error:
            raise Unknown from error
        finally:
            gave_up = True

    def _answered(self, asked: "asyncio.Future[str | None]") -> None:
        self._waiting -= 1
        if not asked.cancelled():
            # Whoever gave up does not look what went wrong.
            asked.exception()

    async def close(self) -> None:
        """Take no question any more; whoever waits for a database that does not answer is cut off."""
        for executor in (self._looking, self._greeting):
            await end_thread(executor, tuple(self._databases))

    async def _in(self, executor: ThreadPoolExecutor, ask: Callable[[], Result]) -> Result:
        def asked() -> Result:
            close_old_connections()
            self._databases.add(connections[DEFAULT_DB_ALIAS])
            return ask()

        return await asyncio.get_running_loop().run_in_executor(executor, asked)


def _fingerprints(watched: frozenset[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    if watched & {OVERVIEW, GROUPS, CLUSTER}:
        found[CLUSTER] = of_cluster.of_cluster()
    if watched & {OVERVIEW, GROUPS}:
        found[OVERVIEW] = found[GROUPS] = of_groups.of_lists(found[CLUSTER])
    if JOURNAL in watched:
        found[JOURNAL] = journal_rows.fingerprint()
    topics = [key.removeprefix(TOPIC) for key in watched if key.startswith(TOPIC)]
    if topics:
        found |= {TOPIC + name: value for name, value in of_cluster.of_topics(topics).items()}
    names = [key.removeprefix(GROUP) for key in watched if key.startswith(GROUP)]
    if names:
        found |= {GROUP + name: value for name, value in of_groups.of_groups(names).items()}
    return {key: value for key, value in found.items() if key in watched}


def same_origin(scope: Scope) -> bool:
    """True if the page came from the scheme and the host that it now connects to; without Origin it did not.

    Behind our TLS proxy (MUSTER_BEHIND_TLS_PROXY) its header says the scheme, as it does for pages.
    """
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    secure = scope.get("scheme") == "wss"
    if settings.SECURE_PROXY_SSL_HEADER is not None:
        name, https = settings.SECURE_PROXY_SSL_HEADER
        said = headers.get(name.removeprefix("HTTP_").replace("_", "-").lower().encode(), "")
        secure = said.partition(",")[0].strip() == https
    host = headers.get(b"host", "").lower()
    expected = f"{'https' if secure else 'http'}://{host}"
    return bool(host) and headers.get(b"origin", "").lower() == expected


def _person(scope: Scope) -> str | None:
    if not same_origin(scope):
        return None
    headers = {
        name: value.decode("latin-1") for name, value in scope["headers"] if name in (b"cookie", b"host")
    }
    host, _ = split_domain_port(headers.get(b"host", ""))
    if not validate_host(host, settings.ALLOWED_HOSTS):
        return None
    try:
        cookie = SimpleCookie(headers.get(b"cookie", "")).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return None
    if cookie is None or "\x00" in cookie.value:
        return None
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(cookie.value)
    user: Any = get_user(request)
    if not user.is_authenticated or not user_may(user, Operation.VIEW):
        return None
    return user.get_username() if _goes_on(request.session) else None


def _goes_on(session: Any) -> bool:
    """True if the session is not over; an open page counts as use of it."""
    now_ms = int(database_clock.now().timestamp() * 1000)
    if sessions.is_over(session, now_ms):
        return False
    return sessions.keep_use(session) if sessions.note_use(session, now_ms) else True
