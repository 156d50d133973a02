"""Every table has one writing room: the SQL and the ORM calls of every other module are read and refused."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from django.apps import apps

from tests.tidy.sources import ROOMS, ROOT, dotted, modules, shown, spelled, tracked_files, tree

# Who writes the tables of an app (design, sections 2 and 3). A prefix names a module and what lies below it.
WRITERS = {
    "groups": ("coordinator.store", "coordinator.statements", "coordinator.sql"),
    "controller": ("controller.store", "controller.statements", "controller.enrolment", "controller.sql"),
    "runtime": ("runtime",),
    "access": ("access",),
}
# The one row of `cluster` belongs to the runtime; two of its counters are raised in turns of the controller.
COUNTERS = {"metadata_version", "next_producer_id"}
WRITE = re.compile(
    r"\b(?:INSERT\s+INTO|UPDATE(?:\s+ONLY)?|DELETE\s+FROM(?:\s+ONLY)?|TRUNCATE(?:\s+TABLE)?|MERGE\s+INTO|COPY)"
    r"\s+\"?([a-z_][a-z0-9_]*)\"?",
    re.IGNORECASE,
)
ORM_WRITES = {
    "create", "bulk_create", "update", "bulk_update", "delete", "get_or_create", "update_or_create",
    "aupdate", "acreate", "adelete", "abulk_create", "aget_or_create", "aupdate_or_create",
}  # fmt: skip


def _owners() -> dict[str, str]:
    """The app of each of our tables."""
    return {
        model._meta.db_table: app
        for app in WRITERS
        if apps.is_installed(app)
        for model in apps.get_app_config(app).get_models()
    }


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Each string of a module with its line; documentation is no statement."""
    module = tree(path)
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(module)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.lineno, node.value


def _statements() -> Iterator[tuple[Path, str, int, str]]:
    """Every text that may hold SQL: file, the module it counts for, line, text."""
    for path in modules():
        for line, text in _texts(path):
            yield path, dotted(path), line, text
    for path in tracked_files():
        if path.suffix == ".sql" and path.relative_to(ROOT).parts[0] in ROOMS:
            yield path, dotted(path), 1, path.read_text(encoding="utf-8")


def _only_raises_a_counter(table: str, text: str) -> bool:
    return table == "cluster" and any(counter in text for counter in COUNTERS)


def test_sql_writes_only_to_tables_of_its_own_room() -> None:
    owners = _owners()
    assert owners, "no table is known; are the apps installed?"
    foreign = []
    for path, module, line, text in _statements():
        for written in WRITE.finditer(text):
            table = written.group(1).lower()
            app = owners.get(table)
            if app is None or _only_raises_a_counter(table, text):
                continue
            if not module.startswith(WRITERS[app]):
                foreign.append(f"{shown(path)}:{line} writes {table}, which belongs to {app}")
    assert foreign == []


def test_the_orm_writes_only_in_the_room_of_its_models() -> None:
    foreign = []
    for path in modules():
        imported = {
            alias.asname or alias.name: node.module.partition(".")[0]
            for node in ast.walk(tree(path))
            if isinstance(node, ast.ImportFrom) and node.module and node.module.endswith(".models")
            for alias in node.names
        }
        for node in ast.walk(tree(path)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            app = imported.get(_first_name(node.func))
            if node.func.attr in ORM_WRITES and app in WRITERS and not dotted(path).startswith(WRITERS[app]):
                foreign.append(f"{shown(path)}:{node.lineno} {spelled(node.func) or node.func.attr}")
    assert foreign == []


def _first_name(node: ast.AST) -> str:
    """The name at the left end of ``Model.objects.filter(...).update``."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""
