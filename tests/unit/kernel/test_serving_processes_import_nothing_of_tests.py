"""This room tests that processes which serve import no library that only tests or the command line need."""

import subprocess
import sys
from pathlib import Path

import pytest

from muster.kernel.lean_imports import NOT_FOR_SERVING, OF_TESTS_ALONE

ROOT = Path(__file__).resolve().parents[3]
# Each ends at once: a broker without settings, a worker asked for a report.
PROGRAMS = {"broker": ["broker"], "worker": ["celery", "-A", "config", "report"]}
TELL_WHAT_WAS_IMPORTED = """
import atexit, runpy, sys
atexit.register(lambda: print(*(name for name, module in sys.modules.items() if module), file=sys.stderr))
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def imported_by(*program: str, **environment: str) -> set[str]:
    """The modules that this program has imported when it ends."""
    told = subprocess.run(
        [sys.executable, "-c", TELL_WHAT_WAS_IMPORTED, *program],
        cwd=ROOT,
        env={"PATH": "", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    ).stderr
    return set(told.splitlines()[-1].split())


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_serving_process_imports_nothing_that_only_tests_need(program: str) -> None:
    imported = {name.partition(".")[0] for name in imported_by(*PROGRAMS[program])}
    assert "structlog" in imported
    assert not imported & set(NOT_FOR_SERVING)


def test_a_node_sees_that_its_settings_are_safe_and_imports_no_page() -> None:
    # It ends at once: behind the checks it refuses its name.
    imported = imported_by("manage", "run_node", MUSTER_NODE_NAME="no name")
    assert {"node.management.commands.run_node", "config.checks"} <= imported
    assert not {"config.urls", "web.urls", "groups.views", "controller.views", "groups.api"} & imported


def test_what_tests_need_is_no_requirement_of_ours() -> None:
    required = (ROOT / "requirements.txt").read_text(encoding="utf-8").lower().splitlines()
    assert not {line.partition("==")[0] for line in required} & set(OF_TESTS_ALONE)
