"""This room is the workers' door: one task, which does the work item that it names."""

import os
import socket
import threading
from functools import cache

import structlog
from celery import shared_task
from django.conf import settings

from runtime import seen, wake, work
from runtime.ports import ConnectionLost
from runtime.postgres import Postgres, PostgresLink

log = structlog.get_logger(__name__)

_links: dict[int, PostgresLink] = {}
_connecting = threading.Lock()


@cache
def _database() -> Postgres:
    """One for all connections: it knows whose database it met, and stays at no other that is led to."""
    return Postgres(settings.DATABASE_DIRECT_URL, "worker")


def _link() -> PostgresLink:
    """This process's connection; a worker forks its children after it has loaded us."""
    pid = os.getpid()
    with _connecting:
        if pid not in _links:
            _links.clear()
            _links[pid] = _database().connect(seen.as_worker(pid), "work")
        return _links[pid]


def be_seen() -> None:
    """Connect, so that people see this process before its first work (runtime.seen), and wait for nothing.

    Celery kills a child that does not begin within four seconds, and the next one: name servers and several
    databases that say nothing take longer, and a lift after a promotion a minute (runtime.succession).
    """
    threading.Thread(target=_be_seen, name="be seen", daemon=True).start()


def _be_seen() -> None:
    try:
        _link()
    except Exception as problem:
        # Its first work tries again, and fails with it if it stands.
        log.warning("worker is not seen before its first work", problem=str(problem))


def perform_and_wake(link: PostgresLink, item_id: str, worker: str) -> bool:
    """Do one item and wake its owner; False if it was not due, or the claim was taken back."""
    done = work.perform(link, item_id, worker)
    if done is None:
        return False
    link.call(lambda connection: wake.send(connection, "work", f"{done.kind} {done.key}"))
    return True


@shared_task(name="runtime.perform_work", ignore_result=True)
def perform_work(item_id: str) -> None:
    """Claim, compute, finish. A lost connection is not tried again here: the owner takes the claim back."""
    try:
        perform_and_wake(_link(), item_id, f"worker {socket.gethostname()[:24]} {os.getpid()}")
    except ConnectionLost:
        if (link := _links.pop(os.getpid(), None)) is not None:
            link.close()
        raise
