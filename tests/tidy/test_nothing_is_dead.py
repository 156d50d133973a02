"""No function, class, method or constant stands in the product that nobody in the product names."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.sources import ROOT, modules, shown, spelled, tracked_files, tree

WORD = re.compile(r"[A-Za-z_]\w*")
# A framework calls them, or users of the library do; each with who that is.
CALLED_FROM_OUTSIDE = {
    **dict.fromkeys(("add_arguments", "password_change", "password_change_done"), "Django"),
    **dict.fromkeys(("to_python", "to_url"), "Django's addresses"),
    **dict.fromkeys(
        ("has_module_perms", "lookup_allowed", "get_search_results", "lookups"), "Django's admin"
    ),
    **dict.fromkeys(
        ("has_add_permission", "has_change_permission", "has_delete_permission"), "Django's admin"
    ),
    **dict.fromkeys(("has_permission", "get_permissions", "allow_request"), "REST framework"),
    "authenticate_header": "REST framework",
    **dict.fromkeys(("select_parser", "select_renderer"), "REST framework"),
    **dict.fromkeys(("TokenScheme", "get_security_definition"), "the description of REST"),
    "capture_signals": "uvicorn",
    "find_spec": "Python's import",
    "_missing_": "Python's enumerations",
    **dict.fromkeys(("get_buffer", "buffer_updated", "eof_received"), "asyncio"),
    **dict.fromkeys(("commits_awaited", "connection_count", "end_offset_of"), "tests ask it"),
    "ROUTE_HOUR": "the pipeline's test compares with it",
}
# Django reads these whole.
READ_WHOLE = {"settings.py", "urls.py", "api_urls.py", "rest_urls.py", "apps.py", "formats.py"}
# What is there for the people who install the library.
FACE_OF_THE_LIBRARY = "muster/client/consumer.py"
# Whoever decorates with anything else registers what he defines.
NO_REGISTRATION = {
    *("property", "cached_property", "staticmethod", "classmethod", "abstractmethod", "override"),
    *("dataclass", "contextmanager", "asynccontextmanager", "cache", "lru_cache", "overload", "setter"),
}
# Where names of ours are spoken beside Python: templates, SQL, how things are started.
SPOKEN = {".html", ".sql", ".toml", ".yaml", ".js", ""}


def _definitions(module: ast.Module) -> Iterator[tuple[str, int]]:
    """What a module defines for others: functions, classes, methods, its constants."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            by = {spelled(one.func if isinstance(one, ast.Call) else one) for one in node.decorator_list}
            if {name.rpartition(".")[2] for name in by} <= NO_REGISTRATION:
                yield node.name, node.lineno
    for statement in module.body:
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, statement.lineno


def _uses(module: ast.Module) -> Iterator[str]:
    """Every name that a module speaks, by itself or in a text; what it defines or documents is no use."""
    texts = (node.value for node in ast.walk(module) if isinstance(node, ast.Expr))
    documentation = {id(text) for text in texts if isinstance(text, ast.Constant)}
    for node in ast.walk(module):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.keyword(arg=str(name)):
                yield name
            case ast.Attribute(attr=name):
                yield name
            case ast.ImportFrom(names=aliases) | ast.Import(names=aliases):
                yield from (alias.name.rpartition(".")[2] for alias in aliases)
            case ast.Constant(value=str(text)) if id(node) not in documentation:
                yield from WORD.findall(text)
            case ast.MatchClass(kwd_attrs=attributes):
                yield from attributes


def _spoken() -> Iterator[str]:
    for path in tracked_files():
        if path.suffix in SPOKEN and path.relative_to(ROOT).parts[0] not in ("tests", "docs"):
            yield from WORD.findall(path.read_text(encoding="utf-8", errors="replace"))


def dead(paths: tuple[Path, ...]) -> list[str]:
    """What is defined in ``paths`` and named nowhere."""
    used = Counter(_spoken())
    for path in paths:
        used.update(_uses(tree(path)))
    return [
        f"{shown(path)}:{line} {name}"
        for path in paths
        if path.name not in READ_WHOLE and shown(path) != FACE_OF_THE_LIBRARY
        for name, line in _definitions(tree(path))
        if not used[name] and name not in CALLED_FROM_OUTSIDE and not re.fullmatch(r"__\w+__", name)
    ]


def test_everything_that_is_defined_is_named_by_somebody() -> None:
    assert dead(modules()) == []


def test_what_is_allowed_is_still_there() -> None:
    defined = {name for path in modules() for name, _ in _definitions(tree(path))}
    assert set(CALLED_FROM_OUTSIDE) - defined == set()
