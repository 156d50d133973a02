"""This room prepares a stack's cluster, by commands, in the process that starts the stack.

That process has been configured before there was a database; a process more would cost seconds.
"""

import traceback
from io import StringIO
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db import connections

from config import environment
from config.celery import app
from standalone.children import StartError


def point_at(database_url: str, redis_url: str, web_url: str) -> None:
    """Make commands that run in this process work on this database, this Redis, and name these pages."""
    connections.close_all()
    settings.DATABASE_URL = settings.DATABASE_DIRECT_URL = database_url
    settings.REDIS_URL = redis_url
    settings.MUSTER_WEB_URL = web_url
    app.conf.update(broker_url=redis_url)
    entry = environment.database(database_url, settings.PROCESS_ROLE)
    for described in (connections.settings["default"], connections["default"].settings_dict):
        described.update(entry)


def command(log: Path, name: str, *arguments: Any) -> str:
    """What the command prints. Raises StartError; the whole story of a failure is appended to ``log``."""
    output = StringIO()
    try:
        call_command(name, *arguments, stdout=output)
    except Exception as error:
        with log.open("a", encoding="utf-8") as file:
            file.write(traceback.format_exc())
        raise StartError(f"`manage.py {name}` failed: {error}; see {log}") from error
    finally:
        connections.close_all()
    return output.getvalue().strip()
