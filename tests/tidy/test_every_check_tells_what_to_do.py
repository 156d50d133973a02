"""A system check that refuses settings has an id to look up and a hint that says what to do."""

import ast

from tests.tidy.sources import calls, modules, shown, tree

MESSAGES = {"Error", "Warning", "Critical", "Info", "Debug"}


def test_every_check_message_has_an_id_and_a_hint() -> None:
    lacking = []
    for path in modules():
        from_checks = {
            alias.asname or alias.name
            for node in ast.walk(tree(path))
            if isinstance(node, ast.ImportFrom) and node.module == "django.core.checks"
            for alias in node.names
            if alias.name in MESSAGES
        }
        for call in calls(tree(path)):
            if isinstance(call.func, ast.Name) and call.func.id in from_checks:
                given = {keyword.arg for keyword in call.keywords}
                if not {"id", "hint"} <= given:
                    lacking.append(f"{shown(path)}:{call.lineno}")
    assert lacking == []
