"""What users install is `muster` and nothing else of ours, and importing it costs no Django."""

import subprocess
import sys
import tomllib

from setuptools import find_packages

from tests.tidy.sources import ROOT


def test_only_the_library_is_packed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packed = find_packages(str(ROOT), include=project["tool"]["setuptools"]["packages"]["find"]["include"])
    assert packed and {name.partition(".")[0] for name in packed} == {"muster"}


def test_importing_the_library_loads_neither_django_nor_the_sdk() -> None:
    unwanted = ("django", "asyncio", "muster.client.consumer", "muster.cli", "typer", "rich", "httpx")
    program = f"import muster, sys; print([name for name in {unwanted!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"
