"""This room is what the environment means to Django processes: who they are, which stack, which database."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from muster.kernel.addresses import host_and_port
from muster.kernel.environment import FILE, Environment, SettingError
from muster.kernel.settings import DECLARED

TRANSACTION_LIMIT_MS = 2000
PAGE_STATEMENT_LIMIT_MS = 5000
PAGE_CONNECTION_AGE_S = 60


def reader(given: Mapping[str, str]) -> Environment:
    """The variables of a Django process, by the declarations that all processes share."""
    return Environment(given, DECLARED, lambda name: Path(name).read_text(encoding="utf-8"))


def of_a_tool(given: Mapping[str, str]) -> Mapping[str, str]:
    """``given``, changed so that a tool works on the stack that runs in MUSTER_HOME, or on the demo's there.

    Unchanged when none runs, or when DATABASE_URL names a database and nobody named MUSTER_HOME.
    """
    told = reader(given)
    if told.is_given("DATABASE_URL") and not told.is_given("MUSTER_HOME"):
        return given
    home = Path(told.text("MUSTER_HOME"))
    for folder in (home, home / "demo"):
        try:
            stack = json.loads((folder / "stack.json").read_text(encoding="utf-8"))
            key = (folder / "secrets" / "secret_key").read_text(encoding="utf-8")
            of_the_stack = {
                "DATABASE_URL": stack["database_url"],
                "DATABASE_DIRECT_URL": stack["database_url"],
                "REDIS_URL": stack["redis_url"],
                "MUSTER_WEB_URL": stack["web"],
                "SECRET_KEY": key,
            }
        except (OSError, ValueError, KeyError, TypeError):
            continue
        return {name: text for name, text in given.items() if name.removesuffix(FILE) not in of_the_stack} | (
            of_the_stack
        )
    return given


def host_of(address: str) -> str:
    """The host part of ``host:port`` or of an URL; ``[::1]:9301`` gives ``::1``."""
    split = urlsplit(address if "//" in address else f"//{address}")
    return split.hostname or ""


def listening_address(name: str, text: str) -> tuple[str, int]:
    """Host and port to listen on. Raises SettingError."""
    address = host_and_port(text)
    if address is None:
        raise SettingError(f"{name}={text!r} is not HOST:PORT.")
    return address


def host_with_port(name: str, text: str) -> str:
    """``text`` as it is, once it is HOST:PORT. Raises SettingError."""
    listening_address(name, text)
    return text


def url(name: str, text: str, *schemes: str) -> str:
    """``text`` as it is, once it is an address of one of these schemes. Raises SettingError."""
    try:
        split = urlsplit(text)
        fits = split.scheme in schemes and bool(split.hostname) and split.port != 0
    except ValueError:
        fits = False
    if not fits:
        wanted = " or ".join(f"{scheme}://HOST:PORT" for scheme in schemes)
        raise SettingError(f"{name}={text!r} is not {wanted}.")
    return text


def process_role(arguments: list[str]) -> str:
    """What this process is, told from its command line: node, web, worker or tool."""
    program = Path(arguments[0]) if arguments else Path()
    if program.name == "celery" or program.parts[-2:] == ("celery", "__main__.py"):
        return "worker"
    command = arguments[1] if len(arguments) > 1 else ""
    return {"run_node": "node", "run_web": "web"}.get(command, "tool")


def database(url: str, role: str) -> dict[str, Any]:
    """Django's database entry for a ``postgresql://`` address.

    A query such as ``?host=/run/postgresql&sslmode=require`` is handed to libpq. Node and worker bound each
    transaction to 2 s, so that a stopped process cannot hold a lock for longer (design, section 4.3). Web
    bounds each statement to 5 s, keeps its few connections, and notices a dead peer within half a minute.
    Raises SettingError for any other kind of database.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"postgresql", "postgres"}:
        raise SettingError(f"DATABASE_URL must start with postgresql://, not {parts.scheme or 'nothing'}.")
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    socket_folder = options.pop("host", None)
    if role in {"node", "worker"}:
        limits = f"-c transaction_timeout={TRANSACTION_LIMIT_MS}"
        limits += f" -c idle_in_transaction_session_timeout={TRANSACTION_LIMIT_MS}"
        options["options"] = f"{options.get('options', '')} {limits}".strip()
    if role == "web":
        limits = f"-c statement_timeout={PAGE_STATEMENT_LIMIT_MS}"
        options["options"] = f"{options.get('options', '')} {limits}".strip()
        for name, value in (("keepalives_idle", 10), ("keepalives_interval", 5), ("keepalives_count", 3)):
            options.setdefault(name, value)
        options.setdefault("tcp_user_timeout", 25_000)
    options.setdefault("connect_timeout", 5)
    options.setdefault("application_name", f"muster-{role}")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")) or "muster",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or socket_folder or ""),
        "PORT": str(parts.port or ""),
        "OPTIONS": options,
        "CONN_MAX_AGE": PAGE_CONNECTION_AGE_S if role == "web" else 0,
        "CONN_HEALTH_CHECKS": True,
    }
