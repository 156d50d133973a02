"""A document that names a module, a file or a test of the tree names one that is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.tidy.sources import ROOMS, ROOT, shown, tracked_files, tree

ENDINGS = (".py", ".md", ".sql", ".html", ".js", ".css", ".toml", ".txt")
PATTERN = re.compile(r"[\w.*/<>-]+")


@cache
def names_of_the_tree() -> frozenset[str]:
    """Every tracked file and every folder that holds one, as paths from the root."""
    files = [path.relative_to(ROOT) for path in tracked_files()]
    return frozenset({str(one) for one in files} | {str(up) for one in files for up in one.parents})


@cache
def words_of(module: Path) -> frozenset[str]:
    """What is defined in a module: functions, classes with their members, constants."""
    found: set[str] = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return frozenset(found)


def is_there(name: str) -> bool | None:
    """Whether the tree has what `name` names; None: it names nothing of the tree."""
    name = name.rstrip("/").split("::")[0]
    known = names_of_the_tree()
    first = name.split("/")[0]
    if "/" in name:
        if first not in known:
            return None
        if "*" in name:
            return any(Path(one).match(name) for one in known)
        return name in known or f"{name}.py" in known
    if name.endswith(ENDINGS):
        return any(Path(one).name == name for one in known) if "*" not in name else None
    parts = name.split(".")
    if len(parts) < 2 or parts[0] not in ROOMS:
        return None
    for length in range(len(parts), 0, -1):
        place, rest = "/".join(parts[:length]), parts[length:]
        if place in known:
            return not rest
        if f"{place}.py" in known:
            return set(rest) <= words_of(ROOT / f"{place}.py")
    return False


def lost(text: str, folder: Path) -> list[str]:
    """Names in backticks, and links, that lead nowhere."""
    prose = re.sub(r"^(```.*?^```|    .*?)$", "", text, flags=re.MULTILINE | re.DOTALL)
    missing = [
        quoted
        for quoted in re.findall(r"`([^`\n]+)`", prose)
        if PATTERN.fullmatch(quoted) and is_there(quoted) is False
    ]
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", prose)
    return missing + [link for link in links if not (folder / link).exists()]


def documents() -> list[Path]:
    return [path for path in tracked_files() if path.suffix == ".md"]


@pytest.mark.parametrize("document", documents(), ids=shown)
def test_what_a_document_names_is_there(document: Path) -> None:
    assert lost(document.read_text(encoding="utf-8"), document.parent) == []


@pytest.mark.parametrize(
    "text",
    [
        "`broker/core/odds.py`",
        "`broker.core.odds`",
        "`broker.core.replica.Odds`",
        "`tests/unit/test_nothing_of_the_kind.py`",
        "`tests/unit/test_nothing*.py`",
        "`odds.md`",
        "[odds](docs/odds.md)",
    ],
)
def test_a_name_that_leads_nowhere_is_found(text: str) -> None:
    assert lost(f"See {text}.", ROOT)


def test_the_architecture_names_every_package() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    told = {name.rstrip("/").replace(".", "/") for name in re.findall(r"`([\w./]+)`", page)}
    packages = {
        str(path.parent.relative_to(ROOT))
        for path in tracked_files()
        if path.name == "__init__.py" and path.relative_to(ROOT).parts[0] in ROOMS
    }
    understood = {"management", "commands", "migrations"}
    assert {one for one in packages if not understood & set(Path(one).parts)} - told == set()


def test_every_deviation_has_its_test() -> None:
    page = (ROOT / "docs" / "deviations.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    told = [row for row in rows if not re.match(r"\| (seed|what Kafka does) \|", row)]
    assert told and [row for row in told if not re.search(r"`tests/[\w/.]+` \|$", row)] == []
