"""Arrows point only downwards: the contracts in pyproject.toml hold."""

import subprocess
import sys

from tests.tidy.sources import ROOT


def test_every_import_contract_is_kept() -> None:
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", program, "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout.partition("Broken contracts")[2] or done.stdout + done.stderr
