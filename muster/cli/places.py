"""This room finds the cluster that a command is about: options, environment, contexts, a stack beside it."""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from muster.cli.failures import ExitCode, Failure, usage
from muster.kernel.addresses import is_loopback

CONTEXTS: Final = "contexts.toml"
STACK: Final = "stack.json"
PREFIX: Final = "/api/v1"
_LARGEST_SECRET: Final = 65_536
_OF_A_FILE: Final = "Name a file that holds the token on one line: --token-file, MUSTER_TOKEN_FILE."
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where REST is, and by which token; `found` says in words where both come from."""

    url: str
    token: str = field(default="", repr=False)
    ca_file: str = ""
    found: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What options say; empty: nothing."""

    url: str = ""
    token: str = field(default="", repr=False)
    token_file: str = ""
    context: str = ""
    ca_file: str = ""
    plaintext: bool = False


@dataclass
class Contexts:
    """The file of contexts: names, and what each stands for."""

    path: Path
    current: str = ""
    named: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Contexts":
        """The file as it is; empty when there is none. Raises Failure."""
        try:
            told = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls(path)
        except (OSError, ValueError) as error:
            raise usage(f"{path} cannot be read: {error}", "Mend it, or move it away.") from error
        contexts = told.get("contexts", {})
        if not isinstance(contexts, dict):
            raise usage(f"{path} holds no contexts: {contexts!r}.", "Mend it, or move it away.")
        named = {
            name: {key: str(value) for key, value in one.items()}
            for name, one in contexts.items()
            if isinstance(one, dict)
        }
        return cls(path, str(told.get("current", "")), named)

    def write(self) -> None:
        """Replace the file at once; only its owner may read it, for it holds tokens."""
        lines = [f"current = {_quoted(self.current)}"]
        for name, one in sorted(self.named.items()):
            lines += ["", f"[contexts.{_quoted(name)}]"]
            lines += [f"{key} = {_quoted(value)}" for key, value in one.items() if value]
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            new = self.path.with_name(f"{self.path.name}.{os.getpid()}")
            handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write("\n".join(lines) + "\n")
            new.replace(self.path)
        except (OSError, ValueError) as error:
            raise Failure(ExitCode.REFUSED, f"{self.path} cannot be written: {error}") from error

    @property
    def others_may_read(self) -> bool:
        """Whether somebody beside its owner can read the tokens in it."""
        try:
            return bool(self.path.stat().st_mode & 0o077)
        except OSError:
            return False


def checked_name(name: str) -> str:
    """A context's name. Raises Failure."""
    if not _NAME.fullmatch(name):
        raise usage("A context is called by letters, digits, dots, dashes and underscores, 64 at most.")
    return name


def contexts_path(environment: Mapping[str, str]) -> Path:
    """Where contexts are kept."""
    config = environment.get("XDG_CONFIG_HOME") or str(
        Path(environment.get("HOME") or _own_home()) / ".config"
    )
    return Path(config) / "muster" / CONTEXTS


def _own_home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        # An account that the machine does not know, in a container: it keeps no contexts.
        return Path(os.sep)


def find(wanted: Wanted, environment: Mapping[str, str], folder: Path) -> Place:
    """The cluster that is meant. Raises Failure.

    The first that says anything counts: `--context`, `--url`, MUSTER_URL, MUSTER_CONTEXT, the current
    context, a stack that runs in this folder or above. A token goes only where it belongs: that of a context
    or stack never to another address.
    """
    token = _own_token(wanted, environment)
    ca_file = wanted.ca_file or environment.get("MUSTER_CA_FILE", "")
    if not wanted.context and (url := wanted.url or environment.get("MUSTER_URL", "")):
        how = "--url" if wanted.url else "MUSTER_URL"
        return checked(Place(url, token, ca_file, how), wanted.plaintext)
    contexts = Contexts.read(contexts_path(environment))
    name = wanted.context or environment.get("MUSTER_CONTEXT", "") or contexts.current
    if name:
        return _of_context(contexts, name, token, ca_file, wanted)
    place = stack_beside(environment, folder)
    if place is None:
        raise usage(
            "No cluster is named.",
            "Name one: --url and MUSTER_TOKEN, or `muster context add NAME --url URL`; beside `make up` it is"
            " found by itself.",
        )
    return checked(Place(place.url, token or place.token, ca_file, place.found), wanted.plaintext)


def _of_context(contexts: Contexts, name: str, token: str, ca_file: str, wanted: Wanted) -> Place:
    kept = contexts.named.get(name)
    if kept is None:
        there = ", ".join(sorted(contexts.named)) or "none"
        raise usage(
            f"There is no context {name}.", f"There are: {there}. Add one: `muster context add {name}`."
        )
    if not token and kept.get("token_file"):
        token = secret_in(kept["token_file"])
    place = Place(
        kept.get("url", ""),
        token or kept.get("token", ""),
        ca_file or kept.get("ca_file", ""),
        f"context {name} of {contexts.path}",
    )
    return checked(place, wanted.plaintext or kept.get("plaintext") == "yes")


def _own_token(wanted: Wanted, environment: Mapping[str, str]) -> str:
    """The token that options or, where a context does not speak for itself, the environment give."""
    if wanted.token_file:
        return secret_in(wanted.token_file)
    if wanted.token:
        return wanted.token
    if wanted.context:
        return ""
    if file := environment.get("MUSTER_TOKEN_FILE", ""):
        return secret_in(file)
    return environment.get("MUSTER_TOKEN", "")


def secret_in(name: str) -> str:
    """What a file holds on its own. Raises Failure."""
    try:
        with Path(name).expanduser().open(encoding="utf-8") as file:
            secret = file.read(_LARGEST_SECRET).strip()
    except (OSError, RuntimeError, ValueError) as error:
        raise usage(f"The token's file {name} cannot be read: {error}", _OF_A_FILE) from error
    if not secret:
        raise usage(f"The token's file {name} is empty.", _OF_A_FILE)
    return secret


def checked(place: Place, plaintext: bool) -> Place:
    """The place with its address in one form. Raises Failure for one that cannot be, or must not be, used."""
    try:
        parts = urlsplit(place.url.strip())
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise usage(f"{place.url} is no address: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise usage(f"{place.url} is no address.", "It looks like https://muster.example.")
    if parts.username or parts.query or parts.fragment:
        raise usage("The address holds more than a host, a port and a path.")
    if parts.scheme == "http" and not is_loopback(host) and not plaintext:
        raise usage(
            f"{place.url} is not behind TLS: whoever listens on the way would learn the token.",
            "Name it by https://, or say --plaintext where the network is yours.",
        )
    if not (place.token.isascii() and place.token.isprintable()) or " " in place.token:
        raise usage("The token holds something that no token holds.", "It looks like mst_… on one line.")
    path = parts.path.rstrip("/").removesuffix(PREFIX)
    where = f"[{host}]" if ":" in host else host
    url = f"{parts.scheme}://{where}{'' if port is None else f':{port}'}{path}"
    return Place(url, place.token, place.ca_file, place.found)


def stack_beside(environment: Mapping[str, str], folder: Path) -> Place | None:
    """The stack that runs in MUSTER_HOME, or in `.muster` of this folder or of one above it.

    Raises Failure if several run, unless one is in MUSTER_HOME itself: so one beside the demo is chosen.
    """
    named = environment.get("MUSTER_HOME")
    if named and (place := _running(Path(named) / STACK)):
        return place
    homes = [Path(named)] if named else [above / ".muster" for above in (folder, *folder.parents)]
    for home in homes:
        running = [told for told in map(_running, _files_of(home)) if told]
        if len(running) > 1:
            names = ", ".join(told.found for told in running)
            raise usage(f"Several stacks run: {names}.", "Choose: MUSTER_HOME=FOLDER muster …")
        if running:
            return running[0]
    return None


def _files_of(home: Path) -> list[Path]:
    """Told by the stack of this folder and of those in it, two folders deep."""
    patterns = (STACK, f"*/{STACK}", f"*/*/{STACK}")
    return [path for pattern in patterns for path in sorted(home.glob(pattern)) if path.is_file()]


def _running(path: Path) -> Place | None:
    try:
        told: Any = json.loads(path.read_text(encoding="utf-8"))
        os.kill(int(told["pid"]), 0)
        # Whoever may write it decides where this account's requests go.
        if path.stat().st_uid not in (os.getuid(), 0):
            return None
        return Place(str(told["web"]), str(told.get("token", "")), found=f"the stack of {path}")
    except PermissionError:
        return None
    except (OSError, OverflowError, ValueError, KeyError, TypeError):
        return None


def _quoted(text: str) -> str:
    """A string of TOML; JSON's escapes are TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
