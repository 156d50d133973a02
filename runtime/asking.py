"""This room stores a person's request, wakes the owner of its lane, and waits for the answer."""

import threading
import time

from django.db import connection

from runtime import requests, wake
from runtime.models import WorkItem
from runtime.ports import DUE
from runtime.requests import NewRequest

WAIT_S = 5.0
WAITING_MAX = 3
"""Requests of a process that are waited for: each holds one of its few desks. Others are answered at once."""

FIRST_LOOK_S, LAST_LOOK_S = 0.01, 0.16

_waiting = threading.BoundedSemaphore(WAITING_MAX)


def ask(row: NewRequest) -> WorkItem:
    """Ask, and wait at most WAIT_S for the answer. The same key and the same request have the same answer.

    Raises runtime.requests.AnotherAsked and TooManyOpen.
    """
    found = None
    while found is None:
        with connection.cursor() as cursor:
            request_id = requests.store(cursor, row)
        wake.notify(DUE, f"{row.kind} {row.key}")
        # One that was answered long ago may be forgotten in this moment: then it is asked for anew.
        found = WorkItem.objects.filter(id=request_id).first()
    return _answered(found)


def _answered(found: WorkItem) -> WorkItem:
    """The row when it has its answer, or WAIT_S have passed."""
    if not _waiting.acquire(blocking=False):
        return found
    try:
        give_up_at, pause = time.monotonic() + WAIT_S, FIRST_LOOK_S
        while found.state != WorkItem.State.ADOPTED and time.monotonic() < give_up_at:
            time.sleep(pause)
            pause = min(2 * pause, LAST_LOOK_S)
            found.refresh_from_db()
    finally:
        _waiting.release()
    return found
