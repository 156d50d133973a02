"""This room is how a worker waits at Redis: what that refuses, or holds that is no message, its log tells."""

import time
from collections.abc import Callable
from typing import Any, Final

import structlog
from celery.worker.consumer import Consumer
from redis.exceptions import ResponseError

log = structlog.get_logger(__name__)

REST_S = 1.0
"""After a refusal, which nothing but an operator or a failover ends; Celery would ask again at once."""

_NO_MESSAGE: Final = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""What reading an entry of the queue raises that no version of Celery has written."""


class TellingConsumer(Consumer):
    """Celery's, which calls a refusal a lost connection and tells its kind alone.

    An entry of the queue that is no message ends Celery's, which nobody starts again. Here it costs the
    connection.
    """

    connection_errors: tuple[type[BaseException], ...]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.connection_errors = (*self.connection_errors, *_NO_MESSAGE)

    def create_task_handler(self, *arguments: Any, **named: Any) -> Callable[[Any], None]:
        """As Celery's, which would be handed the same message again with each new connection."""
        handle = super().create_task_handler(*arguments, **named)

        def received(message: Any) -> None:
            try:
                handle(message)
            except _NO_MESSAGE:
                if not message.acknowledged:
                    message.reject()
                raise

        return received

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        """As Celery's, behind the reason."""
        _tell(exc)
        super().on_connection_error_before_connected(exc)

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """As Celery's, behind the reason."""
        _tell(exc)
        super().on_connection_error_after_connected(exc)


def _tell(exc: Exception) -> None:
    if isinstance(exc, ResponseError):
        log.error("Redis refuses what a worker needs; tried again until it does not", error=str(exc))
        time.sleep(REST_S)
    elif isinstance(exc, _NO_MESSAGE):
        log.error("somebody put into the queue what is no message; left out", error=repr(exc), exc_info=exc)
        time.sleep(REST_S)
