"""This room lets a process run the modules that `make compiled` has compiled, where they fit the sources.

All of them or none: compiled modules know each other's insides, and constants of modules that are not
compiled. Whatever does not fit leaves plain Python, which is never slower to begin and always right.
"""

import hashlib
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any, Final

from muster.kernel.environment import Environment
from muster.kernel.settings import DECLARED

ROOT: Final = Path(__file__).resolve().parents[1]
BUILD: Final = ROOT / "build" / "compiled"
SEAL: Final = "seal"
"""The file that a finished build has: what it was made of, then the name of each module."""
_BESIDE: Final = frozenset({"access", "controller", "groups"})
"""Packages without a module that is compiled, of which compiled ones may hold constants."""
_SUFFIX: Final = sysconfig.get_config_var("EXT_SUFFIX")


def packages_of(modules: Sequence[str]) -> frozenset[str]:
    """The packages of ours in which they are, and those of which they may hold constants."""
    return _BESIDE.union(name.partition(".")[0] for name in modules if "." in name)


def made_of(root: Path, modules: Sequence[str]) -> str:
    """A digest of this Python and of all sources that `modules` may have been made of. Raises OSError."""
    digest = hashlib.blake2b(f"{sys.version} {_SUFFIX}".encode(), digest_size=16)
    for package in sorted(packages_of(modules)):
        for path in sorted((root / package).rglob("*.py")):
            content = path.read_bytes()
            digest.update(f"\n{path.relative_to(root)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


class Compiled:
    """A build whose modules stand before the sources of the same names (a meta path finder)."""

    def __init__(self, build: Path, modules: Sequence[str]) -> None:
        self._build = build
        self._modules = frozenset(modules)

    def find_spec(self, name: str, _path: object = None, _target: Any = None) -> ModuleSpec | None:
        """Where a compiled module lies; None: Python looks for a source, as ever."""
        if name not in self._modules:
            return None
        file = str(self._build / name.replace(".", "/")) + _SUFFIX
        return spec_from_file_location(name, file, loader=ExtensionFileLoader(name, file))


class Running:
    """How this process runs: so many compiled modules, or plain Python, and why."""

    modules = 0
    why_plain = "it was not asked for"

    def __str__(self) -> str:
        return f"{self.modules} compiled modules" if self.modules else f"plain Python: {self.why_plain}"


running: Final = Running()


def use_what_is_compiled(environment: Mapping[str, str], build: Path = BUILD, root: Path = ROOT) -> None:
    """Let compiled modules be imported from now on, if there are any that fit; `running` says what it is.

    Raises SettingError.
    """
    running.modules, running.why_plain = 0, ""
    if not Environment(environment, DECLARED).switch("MUSTER_COMPILED"):
        running.why_plain = "MUSTER_COMPILED says so"
        return
    try:
        sealed, *modules = (build / SEAL).read_text("utf-8").split()
        if made_of(root, modules) != sealed:
            running.why_plain = "what is compiled is of other sources, or for another Python"
        elif early := sorted(sys.modules.keys() & set(modules)):
            running.why_plain = f"{early[0]} was imported before"
        else:
            sys.meta_path.insert(0, Compiled(build, modules))
            running.modules = len(modules)
    except (OSError, ValueError):
        running.why_plain = "nothing is compiled"
