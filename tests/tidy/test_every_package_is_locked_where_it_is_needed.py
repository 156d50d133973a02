"""What a room imports is locked for where the room runs: in the image, in the demo, in the tests."""

import ast
import re
import sys
import tomllib
import warnings
from functools import cache
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.tidy.sources import ROOMS, ROOT, modules, shown, tree

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# What each lock file is made of (.ci/lock), and which rooms run on it.
LOCKS = {
    "docker/requirements.txt": ("server", "cli"),
    "requirements.txt": ("server", "cli", "standalone", "demo"),
    "requirements-dev.txt": ("server", "cli", "standalone", "demo", "dev"),
}
OUTSIDE_OF_THE_IMAGE = ("standalone", "pipeline")


def _locked(lock: str) -> dict[str, Version]:
    lines = (ROOT / lock).read_text(encoding="utf-8").splitlines()
    found = (re.match(r"([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==([^\s;]+)", line) for line in lines)
    return {canonicalize_name(match[1]): Version(match[2]) for match in found if match}


def _wanted(extras: tuple[str, ...]) -> list[Requirement]:
    lists = (PROJECT["optional-dependencies"][extra] for extra in extras)
    return [Requirement(text) for texts in (PROJECT["dependencies"], *lists) for text in texts]


@cache
def _imported(path: Path) -> frozenset[str]:
    """The modules that are not Python's and not ours; what only a type checker reads does not count."""
    names: set[str] = set()
    waiting: list[ast.AST] = [tree(path)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        names |= _named(node)
    return frozenset(name for name in names if _package(name) not in {*ROOMS, "tests", "docker"})


def _named(node: ast.AST) -> set[str]:
    """The modules that an import statement names, Python's own left out."""
    names: set[str] = set()
    if isinstance(node, ast.Import):
        names = {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        names = {node.module}
    return {name for name in names if _package(name) not in sys.stdlib_module_names}


def _package(module: str) -> str:
    return module.partition(".")[0]


@cache
def _needed(module: str) -> frozenset[str]:
    """The packages without which ``module`` cannot be imported: its own, and what it imports itself.

    uvicorn.protocols.http.httptools_impl comes with uvicorn, and httptools does not.
    """
    with warnings.catch_warnings():
        # The parent of a module is imported to find it: what that warns of is its own affair.
        warnings.simplefilter("ignore")
        spec = find_spec(module)
    named: set[str] = {module}
    if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
        body = ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body
        named = named.union(*map(_named, body))
    return frozenset(map(_package, named))


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_what_pyproject_asks_for(lock: str) -> None:
    locked = _locked(lock)
    unmet = [
        str(wish)
        for wish in _wanted(LOCKS[lock])
        if not wish.specifier.contains(locked.get(canonicalize_name(wish.name), "0"), prereleases=True)
    ]
    assert unmet == [], "run `make lock`"


@pytest.mark.parametrize("smaller", ["docker/requirements.txt", "requirements.txt"])
def test_the_larger_lock_holds_the_smaller_one(smaller: str) -> None:
    """`.ci/setup` takes a venv with the tests' packages for one that runs the product."""
    larger = _locked("requirements-dev.txt")
    assert {name: larger.get(name) for name in _locked(smaller)} == _locked(smaller)


@pytest.mark.parametrize("lock", LOCKS)
def test_every_import_is_locked(lock: str) -> None:
    # Python 3.12 has none of its own any more, and setuptools brings it without a folder of that name.
    distributions = {"distutils": ["setuptools"], **packages_distributions()}
    locked = _locked(lock)
    missing = []
    for path in modules(tests=lock == "requirements-dev.txt"):
        room = path.relative_to(ROOT).parts[0]
        if lock == "docker/requirements.txt" and room in OUTSIDE_OF_THE_IMAGE:
            continue
        for package in sorted({package for module in _imported(path) for package in _needed(module)}):
            names = {canonicalize_name(name) for name in distributions.get(package, [package])}
            if not names & locked.keys():
                missing.append(f"{shown(path)} imports {package}")
    assert missing == []
