"""This room shapes log lines: one JSON object a line on standard error, from Django, Celery and us."""

import logging
import logging.config
from typing import Any

import structlog

_OF_STRANGERS = "django.security."
"""Behind it stands which mistake: a host that nobody serves, more fields than a form has."""


class _Shortly(logging.Filter):
    """Warns of strangers' mistakes without a traceback: each would cost kilobytes of the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith(_OF_STRANGERS):
            record.exc_info = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


def configure(role: str, level: str) -> None:
    """Send every log record of this process to standard error as JSON, stamped with ``role``."""

    def add_role(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event.setdefault("process", role)
        return event

    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        add_role,
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {
                "json": {
                    "()": structlog.stdlib.ProcessorFormatter,
                    "foreign_pre_chain": shared,
                    "processors": [
                        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                        structlog.processors.JSONRenderer(),
                    ],
                }
            },
            "filters": {"shortly": {"()": _Shortly}},
            # At the handler: what filters a logger does not hear of those below it.
            "handlers": {
                "stderr": {"class": "logging.StreamHandler", "formatter": "json", "filters": ["shortly"]}
            },
            "root": {"handlers": ["stderr"], "level": level},
            "loggers": {
                # One line for each request of each page says nothing that the metrics do not say.
                "uvicorn.access": {"level": "WARNING"},
                # Three lines for each websocket: members that come back have better things to wait for.
                "uvicorn.error": {"level": "WARNING"},
                "django.server": {"level": "WARNING"},
                # Nor does one for each refusal, of which strangers can have as many as they like.
                "django.request": {"level": "ERROR"},
            },
        }
    )
