"""A function fits on a screen and a module in a head: at most 70 and 500 lines."""

import ast

from tests.tidy.sources import modules, shown, tree

FUNCTION_LINES = 70
MODULE_LINES = 500


def test_no_function_is_longer_than_70_lines() -> None:
    long = [
        f"{shown(path)}:{node.lineno} {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for path in modules(tests=True)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES
    ]
    assert long == []


def test_no_module_is_longer_than_500_lines() -> None:
    counted = {
        shown(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules(tests=True)
    }
    assert {name: lines for name, lines in counted.items() if lines > MODULE_LINES} == {}
