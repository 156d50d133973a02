"""This room asks Celery to do due work, from a thread that may wait for Redis while nobody else does."""

import threading
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

import structlog

from runtime import metrics

CAPACITY = 256
"""Work beyond it is not published: its owner has it done by the spare process."""

QUEUED_MAX = 500
FORGET_EVERY = 100
"""Where no worker runs, what is asked lies in Redis though it is long done. At each hundredth of a process
only the newest are kept: a worker that comes back would look at all before it does anything new.
"""

log = structlog.get_logger(__name__)
_asked = count(1)


def ask_celery(item_id: str) -> None:
    """Publish one item for the workers. Raises whatever Redis makes of it, within about 0.6 s.

    It never expires: a worker would judge that by its own clock and ours, and one whose clock is ahead would
    throw everything away. What is done by then costs it one look.
    """
    from runtime.tasks import perform_work

    if next(_asked) % FORGET_EVERY == 0:
        # Before the next: a Redis that is full of them has room again.
        _forget_the_oldest(perform_work.app)
    perform_work.apply_async((item_id,), retry=False, ignore_result=True)


def _forget_the_oldest(app: Any) -> None:
    with app.producer_pool.acquire(block=True) as producer, producer.channel.conn_or_acquire() as client:
        # The newest stand at the left; workers take from the right.
        client.ltrim(app.conf.task_default_queue, 0, QUEUED_MAX - 1)


def prepare_celery() -> None:
    """Load what the first `ask_celery` would load, which takes longer than a large election; asks nobody."""
    from runtime.tasks import perform_work

    _ = perform_work.app.producer_pool


class Publisher:
    """A daemon thread with a bounded queue without doubles."""

    def __init__(
        self,
        send: Callable[[str], None] = ask_celery,
        capacity: int = CAPACITY,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        """`prepare` is called first, in the thread: what the first to publish would have to wait for."""
        self._send, self._prepare = send, prepare
        self._capacity = capacity
        self._waiting: deque[str] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="publisher", daemon=True)
        self._thread.start()

    def publish(self, item_id: str) -> bool:
        """Queue an item; False: it waits already, or the queue is full. Returns at once."""
        with self._changed:
            if item_id in self._waiting:
                metrics.publish_skipped.labels("double").inc()
                return False
            if len(self._waiting) >= self._capacity:
                metrics.publish_skipped.labels("full").inc()
                return False
            self._waiting.append(item_id)
            self._changed.notify()
            return True

    def stop(self) -> None:
        """Publish nothing more; does not wait for Redis."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def _work(self) -> None:
        try:
            self._prepare()
        except Exception as error:
            # The first publishing meets the same, and is not alone with it.
            log.warning("Celery could not be prepared", error=str(error))
        while True:
            with self._changed:
                while not self._waiting and not self._stopping:
                    self._changed.wait()
                if self._stopping:
                    return
                item_id = self._waiting[0]
            try:
                self._send(item_id)
            except Exception as error:
                self._forget_all(error)
            else:
                metrics.work_items.labels("published").inc()
                with self._changed:
                    if self._waiting and self._waiting[0] == item_id:
                        self._waiting.popleft()

    def _forget_all(self, error: Exception) -> None:
        """Redis is gone or hangs: each try costs time, and what waits is being done by the spare process."""
        with self._changed:
            forgotten = len(self._waiting)
            self._waiting.clear()
        metrics.publish_skipped.labels("failed").inc(forgotten)
        log.warning("Celery could not be asked", error=str(error), items=forgotten)
