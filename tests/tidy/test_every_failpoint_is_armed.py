"""A point at which a process may be killed for a test is a promise: some test kills it there."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.sources import calls, modules, shown, spelled, tree


def test_every_failpoint_is_armed_by_a_test() -> None:
    named = {name for path in modules() for name in _passed(path)}
    tests = (
        path for path in modules(tests=True) if shown(path).startswith("tests/") and path != Path(__file__)
    )
    armed = "\n".join(path.read_text() for path in tests)
    assert len(named) >= 15
    assert sorted(name for name in named if f'"{name}' not in armed) == []


def _passed(path: Path) -> Iterator[str]:
    for call in calls(tree(path)):
        if spelled(call.func) == "passing":
            [name] = call.args
            assert isinstance(name, ast.Constant), f"{shown(path)}: its name stands where it is passed"
            yield str(name.value)
