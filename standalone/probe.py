"""This room sends one work item through a Celery worker, to see that workers work."""

import time
from collections.abc import Callable
from typing import Any

from runtime import work
from runtime.postgres import open_connection
from runtime.publishing import ask_celery

KIND = "standalone.probe"
# No lane of this name is held: no node looks after the item, so only a worker can have done it.
LANE = "standalone/probe"
LIMIT_S = 90.0
ASK_AGAIN_S = 2.0
LOOK_AGAIN_S = 0.1


class NoWorker(Exception):
    """No worker did the item in time."""


def answer(connection: Any, item: Any) -> Callable[[], dict[str, str]]:
    """What the worker computes: the key it was given."""
    return lambda: {"key": item.key}


def probe(database_url: str, one_runs: Callable[[], bool]) -> None:
    """Offer an item, ask Celery until a worker has done it, and adopt it.

    Raises NoWorker after 90 s, or as soon as not even ``one_runs``.
    """
    with open_connection(database_url, "muster-probe") as connection:
        key = f"probe-{time.time_ns()}"
        item_id = work.offer(connection, KIND, key, None, {}, lane=LANE)
        give_up_at = time.monotonic() + LIMIT_S
        ask_at = 0.0
        asking = ""
        while not work.finished(connection, KIND, [key]):
            if time.monotonic() >= ask_at:
                asking = _ask(item_id)
                ask_at = time.monotonic() + ASK_AGAIN_S
            if not one_runs():
                raise NoWorker("Every worker has ended.")
            if time.monotonic() > give_up_at:
                raise NoWorker(f"No worker did the item within {LIMIT_S:.0f} s. {asking}".strip())
            time.sleep(LOOK_AGAIN_S)
        work.adopt(connection, item_id)


def _ask(item_id: str) -> str:
    """Publish the item; the text says why it could not be done."""
    try:
        ask_celery(item_id)
    except Exception as error:  # Whatever a client of Redis makes of a server that is not there.
        return f"Celery could not be asked: {error}"
    return ""
