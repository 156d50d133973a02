"""This room is what the environment means to Django processes: who they are, which stack, which database."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from muster.kernel.addresses import host_and_port
from muster.kernel.environment import FILE, Environment, SettingError
from muster.kernel.settings import CONTROLLER, DECLARED, EVERY_PROCESS, GROUPS

TRANSACTION_LIMIT_MS = 2000
PAGE_STATEMENT_LIMIT_MS = 5000
PAGE_CONNECTION_AGE_S = 60
_ISOLATION = r"-c default_transaction_isolation=read\ committed"
"""An administrator may have set another for the role or the database, under which what writes beside others
is refused and has to be asked again.
"""
REDIS_SOCKET = "redis+socket"
REDIS_SCHEMES = frozenset({"redis", "rediss", REDIS_SOCKET})
_USUAL_PORTS = {"http": 80, "https": 443}


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


def origin(name: str, text: str) -> str:
    """``text`` as it is, once it is what a browser calls an origin. Raises SettingError.

    One with a path, be it a slash, a large letter or the port that goes without saying is equal to none: each
    form would be refused.
    """
    try:
        split = urlsplit(text)
        told = split.scheme in _USUAL_PORTS and split.hostname and split.port != 0
        port = "" if split.port in (None, _USUAL_PORTS.get(split.scheme)) else f":{split.port}"
        host = f"[{split.hostname}]" if ":" in (split.hostname or "") else split.hostname
    except ValueError:
        told = False
    if not told or text != f"{split.scheme}://{host}{port}" or not text.isascii():
        raise SettingError(
            f"{name}: {text!r} is no origin such as https://muster.example: small letters, no path,"
            " and no port that its scheme has anyway."
        )
    return text


def process_role(arguments: list[str]) -> str:
    """What this process is, told from its command line: node, web, worker or tool."""
    program = Path(arguments[0]) if arguments else Path()
    if program.name == "celery" or program.parts[-2:] == ("celery", "__main__.py"):
        return "worker"
    command = arguments[1] if len(arguments) > 1 else ""
    return {"run_node": "node", "run_web": "web"}.get(command, "tool")


def refuse_what_cannot_be_used(told: Environment, role: str) -> None:
    """Before anything begins: what is read later, by a turn or a page, would fail each of them.

    Raises SettingError.
    """
    read_later = {"node": (GROUPS, CONTROLLER), "web": (CONTROLLER,), "worker": (CONTROLLER,)}
    for settings in (EVERY_PROCESS, *read_later.get(role, ())):
        for setting in settings:
            told.value(setting.name)


def redis(name: str, url: str) -> str:
    """``url`` as it is, once it is a Redis's. Raises SettingError, without the password that is in it."""
    try:
        split = urlsplit(url)
        fits = split.port != 0
    except ValueError:
        fits = False
    if not fits or split.scheme not in REDIS_SCHEMES:
        raise SettingError(f"{name} is not redis://:PASSWORD@HOST:PORT/NUMBER, nor rediss:// for TLS.")
    number = split.path.strip("/")
    if split.scheme != REDIS_SOCKET and number and not (number.isascii() and number.isdecimal()):
        raise SettingError(f"{name} ends with {number!r}, which is no number of a database of Redis.")
    return url


def database_words(name: str, url: str) -> dict[str, Any]:
    """What ``url`` tells libpq, word by word; several servers stand with commas.

    Raises SettingError, without the password that is in it.
    """
    wanted = f"{name} is not postgresql://USER:PASSWORD@HOST:PORT/NAME"
    try:
        words = conninfo_to_dict(url)
    except ProgrammingError as error:
        # What libpq says of the query holds its words alone; all else may hold the password.
        said = f": {str(error).strip()}" if "URI query parameter" in str(error) else ""
        raise SettingError(f"{wanted}{said}.") from None
    ports = str(words.get("port", "")).split(",")
    if not all(port == "" or (port.isdecimal() and 0 < int(port) < 65_536) for port in ports):
        raise SettingError(f"{wanted}: a port is a number from 1 to 65535.")
    return words


def database(url: str, role: str) -> dict[str, Any]:
    """Django's database entry for a ``postgresql://`` address.

    It may name several servers (``a:5432,b:5432``); a query such as
    ``?host=/run/postgresql&sslmode=require`` is handed to libpq. Node and worker bound each
    transaction to 2 s, so that a stopped process cannot hold a lock for longer (design, section 4.3). Web
    bounds each statement to 5 s, keeps its few connections, and notices a dead peer within half a minute.
    Raises SettingError for any other kind of database.
    """
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme not in {"postgresql", "postgres"}:
        raise SettingError(f"DATABASE_URL must start with postgresql://, not {scheme or 'nothing'}.")
    options = database_words("DATABASE_URL", url)
    place = {word: options.pop(word, "") for word in ("dbname", "user", "password", "host", "port")}
    if role in {"node", "worker"}:
        limits = f"-c transaction_timeout={TRANSACTION_LIMIT_MS}"
        limits += f" -c idle_in_transaction_session_timeout={TRANSACTION_LIMIT_MS}"
        # What an administrator set for a database or a role cuts off what these bound already.
        limits += f" -c statement_timeout=0 -c lock_timeout=0 {_ISOLATION}"
        options["options"] = f"{options.get('options', '')} {limits}".strip()
    if role == "web":
        limits = f"-c statement_timeout={PAGE_STATEMENT_LIMIT_MS} {_ISOLATION}"
        options["options"] = f"{options.get('options', '')} {limits}".strip()
        for name, value in (("keepalives_idle", 10), ("keepalives_interval", 5), ("keepalives_count", 3)):
            options.setdefault(name, value)
        options.setdefault("tcp_user_timeout", 25_000)
    options.setdefault("connect_timeout", 5)
    options.setdefault("application_name", f"muster-{role}")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": place["dbname"] or "muster",
        "USER": place["user"],
        "PASSWORD": place["password"],
        "HOST": place["host"],
        "PORT": place["port"],
        "OPTIONS": options,
        "CONN_MAX_AGE": PAGE_CONNECTION_AGE_S if role == "web" else 0,
        "CONN_HEALTH_CHECKS": True,
    }
