"""This room finds and parses the files that the house rules are about."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# A room's name is its first folder; whatever else lies in the tree is not ours.
ROOMS = (
    *("muster", "kafkaserver", "broker", "pipeline", "runtime", "access", "controller", "groups"),
    *("coordinator", "gateway", "config", "node", "web", "standalone"),
)


@cache
def tracked_files() -> tuple[Path, ...]:
    """Every file of the tree, new ones included, caches and installed things excluded."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    paths = [ROOT / name for name in listed.decode().split("\0") if name]
    return tuple(sorted(path for path in paths if path.is_file()))


@cache
def modules(*, tests: bool = False) -> tuple[Path, ...]:
    """The Python modules of the product, with ``tests`` also those; migrations are Django's."""
    rooms = (*ROOMS, "tests") if tests else ROOMS
    return tuple(
        path
        for path in tracked_files()
        if path.suffix == ".py"
        and (path.relative_to(ROOT).parts[0] in rooms or path.parent == ROOT)
        and "migrations" not in path.parts
    )


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of one module."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def dotted(path: Path) -> str:
    """The module's name as an import says it."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def shown(path: Path) -> str:
    """The path as people know it."""
    return str(path.relative_to(ROOT))


def is_core(path: Path) -> bool:
    """True for code that must stay pure: cores and the lower storeys of the library."""
    name = dotted(path) + "."
    pure = ("muster.kernel.", "muster.messages.", "muster.kafkawire.")
    return ".core." in name or name.startswith(pure)


def calls(node: ast.AST) -> Iterator[ast.Call]:
    """Every call below ``node``."""
    return (found for found in ast.walk(node) if isinstance(found, ast.Call))


def spelled(node: ast.AST) -> str:
    """``a.b.c`` of a name or an attribute; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = spelled(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""
