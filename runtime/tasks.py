"""This room is the workers' door: one task, which does the work item that it names."""

import contextlib
import os
import socket

from celery import shared_task
from django.conf import settings

from runtime import seen, wake, work
from runtime.ports import ConnectionLost
from runtime.postgres import Postgres, PostgresLink

_links: dict[int, PostgresLink] = {}


def _link() -> PostgresLink:
    """This process's connection; a worker forks its children after it has loaded us."""
    pid = os.getpid()
    if pid not in _links:
        _links.clear()
        _links[pid] = Postgres(settings.DATABASE_DIRECT_URL, "worker").connect(seen.as_worker(pid), "work")
    return _links[pid]


def be_seen() -> None:
    """Connect now, so that people see this process before its first work; else with that (runtime.seen)."""
    with contextlib.suppress(ConnectionLost):
        _link()


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
        for link in _links.values():
            link.close()
        _links.clear()
        raise
