"""Cores import no IO, no clock and no chance, wait for nobody, and load without Django or asyncio."""

import ast
import json
import subprocess
import sys

from tests.tidy.sources import ROOT, calls, dotted, is_core, modules, shown, spelled, tree

CORES = [path for path in modules() if is_core(path)]
KEPT_OUT = {"django", "asyncio", "psycopg", "websockets", "celery", "structlog"}
# Kafka's codecs come from kio and aiokafka, which import asyncio for their own sake; the import contract sees
# to it that our modules do not.
LEANING_ON_CODECS = "muster.kafkawire"


def test_there_are_cores_to_look_at() -> None:
    assert {"coordinator.core.decide", "controller.core.turn"} <= {dotted(path) for path in CORES}


def test_nothing_in_a_core_is_asynchronous() -> None:
    waiting = [
        f"{shown(path)}:{node.lineno}"
        for path in CORES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
    ]
    assert waiting == []


def test_no_core_prints_or_opens_files() -> None:
    found = [
        f"{shown(path)}:{call.lineno} {spelled(call.func)}"
        for path in CORES
        for call in calls(tree(path))
        if spelled(call.func) in {"print", "open", "input", "exec", "eval"}
    ]
    assert found == []


def test_every_core_loads_without_django_and_asyncio() -> None:
    names = [dotted(path) for path in CORES if not dotted(path).startswith(LEANING_ON_CODECS)]
    assert _loaded_by(names) & KEPT_OUT == set()


def test_kafkas_codecs_load_without_django() -> None:
    names = [dotted(path) for path in CORES if dotted(path).startswith(LEANING_ON_CODECS)]
    assert _loaded_by(names) & KEPT_OUT == {"asyncio"}


def _loaded_by(names: list[str]) -> set[str]:
    """Every module that a new interpreter holds after importing ``names``."""
    program = (
        "import importlib, json, sys\n"
        f"[importlib.import_module(name) for name in {names!r}]\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    command = [sys.executable, "-c", program]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return set(json.loads(output))
