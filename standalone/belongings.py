"""This room knows what stacks put into a home: a list inside it, and nothing else is ever deleted.

A home is a folder that was empty, or absent, or carries such a list. A name is written into the list before
anything of that name is made, so that also a killed stack leaves nothing that is not listed.
"""

import json
import os
import pwd
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from standalone.children import StartError
from standalone.earlier_homes import put_there_before_lists
from standalone.private import write_private

LIST_FILE = "home.json"
SAYS = "Folder of a Muster stack; `make clean` deletes what is listed here, and nothing else."
# The demo's stack lies in a folder of this name inside of MUSTER_HOME.
DEMO = "demo"
_DRAFT = re.compile(rf"\.{re.escape(LIST_FILE)}\.\d+")


class NotAHome(StartError):
    """This folder is somebody's, and no stack may use it."""


@dataclass(frozen=True, slots=True)
class Belongings:
    """What a home remembers: the names of what stacks put there, and the ports that they had."""

    names: tuple[str, ...]
    ports: Mapping[str, int] = field(default_factory=dict)


def known(home: Path) -> Belongings | None:
    """What the home remembers, also one that was made before there were lists; None if it is no home."""
    try:
        told: Any = json.loads((home / LIST_FILE).read_text(encoding="utf-8"))
        names = tuple(str(name) for name in told["names"] if _is_plain(str(name)))
        return Belongings(names, {str(name): int(port) for name, port in told["ports"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        earlier = put_there_before_lists(home)
        return Belongings(earlier) if earlier else None


def claim(home: Path, names: Iterable[str]) -> Belongings:
    """Make the folder a home in which a stack may put ``names``. Raises NotAHome, OSError.

    Nothing that was there before is ever claimed.
    """
    if is_everybodys(home):
        raise NotAHome(f"{home} is no folder for a stack alone; name another with MUSTER_HOME=dir.")
    if home.exists() and not home.is_dir():
        raise NotAHome(f"{home} is a file, no folder: name another with MUSTER_HOME=dir.")
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    if owner := _somebody_elses(home):
        raise NotAHome(
            f"The stack in {home} is {owner}'s, with data that only {owner} reaches: run it as {owner}, or "
            "name another folder with MUSTER_HOME=dir."
        )
    # In this order: whoever makes it a home at the same time writes the list first.
    strangers = _strangers(home)
    before = known(home)
    if before is None and strangers:
        raise NotAHome(
            f"{home} is not empty, and no stack made it ({', '.join(strangers[:3])} …): "
            "name an empty or a new folder with MUSTER_HOME=dir."
        )
    before = before or Belongings(())
    wanted = [name for name in names if name not in before.names]
    in_the_way = [name for name in wanted if _exists(home / name)]
    if in_the_way:
        raise NotAHome(
            f"{home / in_the_way[0]} was not put there by a stack, which needs a place of this name: "
            "move it away, or name another folder with MUSTER_HOME=dir."
        )
    after = Belongings((*before.names, *wanted), before.ports)
    if after != before or not _exists(home / LIST_FILE):
        remember(home, after)
    return after


def remember(home: Path, belongings: Belongings) -> None:
    """Write the list anew."""
    told = {"what": SAYS, "names": list(belongings.names), "ports": dict(belongings.ports)}
    write_private(home / LIST_FILE, json.dumps(told, indent=2) + "\n")


def is_everybodys(home: Path) -> bool:
    """True for / and for a person's own home, which are never deleted and never a stack's."""
    try:
        everybodys = {Path("/"), Path.home().resolve()}
    except RuntimeError:
        everybodys = {Path("/")}
    return home.resolve() in everybodys


def _is_plain(name: str) -> bool:
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def _exists(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _somebody_elses(home: Path) -> str:
    """Whose home it is, if another user's: root's PostgreSQL lies elsewhere, others' is closed."""
    try:
        owner = (home / LIST_FILE).lstat().st_uid
    except FileNotFoundError:
        return ""
    if owner == os.geteuid():
        return ""
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"user {owner}"


def _strangers(home: Path) -> list[str]:
    """What lies in a folder and is no stack's: neither a draft of the list nor the demo's own home."""
    return sorted(
        path.name
        for path in home.iterdir()
        if not _DRAFT.fullmatch(path.name)
        and not (path.name == DEMO and not path.is_symlink() and known(path) is not None)
    )
