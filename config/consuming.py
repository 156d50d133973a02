"""This room is how a worker waits at Redis: where that refuses a command, its log says which one, and why."""

import time

import structlog
from celery.worker.consumer import Consumer
from redis.exceptions import ResponseError

log = structlog.get_logger(__name__)

REST_S = 1.0
"""After a refusal, which nothing but an operator or a failover ends; Celery would ask again at once."""


class TellingConsumer(Consumer):
    """Celery's, which calls a refusal a lost connection and tells its kind alone."""

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
