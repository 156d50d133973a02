"""Two programs say the same version if, and only if, they are made of the same files."""

import subprocess
import sys
import tomllib
from pathlib import Path

from kafkaserver.version import ROOMS, digest_of, own_version
from muster.kernel.version import VERSION
from runtime.models import VERSION_LENGTH
from tests.tidy.sources import ROOMS as ALL_ROOMS
from tests.tidy.sources import ROOT


def program(root: Path, text: str = "answer = 42\n", name: str = "decide.py") -> Path:
    (root / "broker" / "core").mkdir(parents=True)
    (root / "broker" / "core" / name).write_text(text)
    return root


def test_what_is_done_with_it_changes_nothing(tmp_path: Path) -> None:
    one, other = program(tmp_path / "a"), program(tmp_path / "b")
    (other / "broker" / "__pycache__").mkdir()
    (other / "broker" / "__pycache__" / "decide.py").write_text("compiled")
    (other / "tests").mkdir()
    (other / "tests" / "test_it.py").write_text("pass")
    (other / "broker" / "core" / "decide.py.orig").write_text("left behind")
    assert digest_of(one) == digest_of(other)


def test_another_line_or_another_place_is_another_version(tmp_path: Path) -> None:
    texts = {"a": program(tmp_path / "a"), "b": program(tmp_path / "b", "answer = 43\n")}
    texts["c"] = program(tmp_path / "c", name="decided.py")
    assert len({digest_of(root) for root in texts.values()}) == 3


def test_every_process_says_the_same_from_its_own_folder(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-m", "kafkaserver.version"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert said == f"{own_version()}\n" and said.startswith(f"{VERSION}+")


def test_the_release_and_the_rooms_are_those_of_the_tree() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == VERSION
    assert set(ROOMS) == {*ALL_ROOMS, "templates", "static"} - {"pipeline"}
    copied = (ROOT / "docker" / "Dockerfile").read_text()
    assert [room for room in ROOMS if f"COPY {room} {room}\n" not in copied] == []
    assert len(own_version()) <= VERSION_LENGTH
