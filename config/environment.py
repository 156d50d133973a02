"""This room reads the environment: names, secrets kept in files, database addresses, who is on loopback."""

import os
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
TRANSACTION_LIMIT_MS = 2000
PAGE_STATEMENT_LIMIT_MS = 5000
PAGE_CONNECTION_AGE_S = 60


class SettingError(Exception):
    """An environment variable has a value the product cannot run with; the text names the variable."""


def text(name: str, default: str = "", environment: Mapping[str, str] = os.environ) -> str:
    """The value of ``name``, empty counting as not set, or the content of the file that ``name_FILE`` names.

    Raises SettingError when both are given, or when the file cannot be read.
    """
    file_name = environment.get(f"{name}_FILE")
    value = environment.get(name)
    if file_name and value:
        raise SettingError(f"{name} and {name}_FILE are both set; keep one.")
    if not file_name:
        return value or default
    try:
        return Path(file_name).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingError(f"{name}_FILE={file_name} cannot be read: {error.strerror}.") from error


def flag(name: str, environment: Mapping[str, str] = os.environ) -> bool:
    """True when ``name`` says 1, true, yes or on; false otherwise, also when it is not set."""
    return text(name, "", environment).strip().lower() in TRUE_WORDS


def words(name: str, default: str = "", environment: Mapping[str, str] = os.environ) -> list[str]:
    """The comma-separated values of ``name``, without blanks."""
    return [word.strip() for word in text(name, default, environment).split(",") if word.strip()]


def number(name: str, default: int, environment: Mapping[str, str] = os.environ) -> int:
    """The whole number in ``name``. Raises SettingError when it is not one."""
    value = text(name, str(default), environment)
    try:
        return int(value)
    except ValueError as error:
        raise SettingError(f"{name}={value!r} is not a whole number.") from error


def is_loopback(host: str) -> bool:
    """True for names and addresses that only this machine can reach."""
    bare = host.strip().strip("[]")
    if bare == "localhost" or bare.endswith(".localhost"):
        return True
    try:
        return ip_address(bare).is_loopback
    except ValueError:
        return False


def host_of(address: str) -> str:
    """The host part of ``host:port`` or of an URL; ``[::1]:9301`` gives ``::1``."""
    split = urlsplit(address if "//" in address else f"//{address}")
    return split.hostname or ""


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
