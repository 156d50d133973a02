"""Every module opens with one sentence; packages are silent; no module's name says nothing."""

import ast

from tests.tidy.sources import ROOT, modules, shown, tree

# The library's package is the one that says something: it names the SDK for whoever installs it.
SPEAKING_PACKAGES = {"muster/__init__.py"}
EMPTY_WORDS = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers", "stuff", "base"}


def test_every_module_opens_with_one_sentence() -> None:
    silent = []
    for path in modules(tests=True):
        if path.name == "__init__.py":
            continue
        text = ast.get_docstring(tree(path)) or ""
        first = text.partition("\n\n")[0].strip()
        if not first or first[-1] not in ".:?!":
            silent.append(shown(path))
    assert silent == []


def test_packages_are_empty() -> None:
    speaking = [
        shown(path)
        for path in modules(tests=True)
        if path.name == "__init__.py" and shown(path) not in SPEAKING_PACKAGES and path.stat().st_size
    ]
    assert speaking == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    found = []
    for path in modules(tests=True):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found += [shown(path) for part in parts if part in EMPTY_WORDS]
    assert found == []


def test_public_functions_and_classes_of_the_library_have_a_docstring() -> None:
    missing = [
        f"{shown(path)}:{node.lineno} {node.name}"
        for path in modules()
        if shown(path).startswith(("muster/client/", "muster/kernel/")) and "/core/" not in shown(path)
        for node in tree(path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and ast.get_docstring(node) is None
    ]
    assert missing == []
