"""Compiled modules are imported where they were made of exactly these sources; plain Python is the rest."""

import ast
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaserver.compiled import BUILD, ROOT, SEAL, made_of, packages_of, running, use_what_is_compiled
from muster.kafkawire.api_table import ApiKey
from muster.kernel.environment import SettingError
from tests.benchmarks.frame_load import answer_of
from tests.benchmarks.produce_consume import muster
from tests.benchmarks.raw_fetch import fetch, read
from tests.benchmarks.raw_produce import VERSION, Broker, produce
from tests.unit.kafkawire.made_batches import made_batch

HOT = "hotroom.core.hot"


@pytest.fixture(autouse=True)
def _plain_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before = running.modules, running.why_plain
    yield
    running.modules, running.why_plain = before


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """A build of one module of the package `hotroom`, which lies beside it."""
    (tmp_path / "hotroom" / "core").mkdir(parents=True)
    (tmp_path / "hotroom" / "core" / "hot.py").write_text("HEAT = 1\n", "utf-8")
    (tmp_path / "hotroom" / "cold.py").write_text("BOUND = 2\n", "utf-8")
    folder = tmp_path / "build"
    folder.mkdir()
    (folder / SEAL).write_text(f"{made_of(tmp_path, [HOT])}\n{HOT}\n", "utf-8")
    return folder


def test_a_build_of_these_sources_stands_before_them(build: Path) -> None:
    use_what_is_compiled({}, build, build.parent)
    found = sys.meta_path[0].find_spec(HOT, None)
    assert found is not None and str(found.origin).startswith(str(build / "hotroom" / "core" / "hot."))
    assert sys.meta_path[0].find_spec("hotroom.cold", None) is None
    assert str(running) == "1 compiled modules"


@pytest.mark.parametrize("changed", ["core/hot.py", "cold.py", "core/new.py"])
def test_any_change_of_their_packages_leaves_plain_python(build: Path, changed: str) -> None:
    (build.parent / "hotroom" / changed).write_text("HEAT = 3\n", "utf-8")
    before = list(sys.meta_path)
    use_what_is_compiled({}, build, build.parent)
    assert sys.meta_path == before
    assert str(running) == "plain Python: what is compiled is of other sources, or for another Python"


def test_whatever_compiled_modules_import_of_ours_counts() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    names, ours = table["muster"]["compiled"], set(table["importlinter"]["root_packages"])
    imported = set()
    for name in names:
        tree = ast.parse((ROOT / name.replace(".", "/")).with_suffix(".py").read_text("utf-8"))
        imported |= {
            node.module.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
        }
    assert imported & ours <= packages_of(names)


def test_a_source_that_is_gone_leaves_plain_python(build: Path) -> None:
    shutil.rmtree(build.parent / "hotroom")
    use_what_is_compiled({}, build, build.parent)
    assert not running.modules


def test_the_setting_leaves_plain_python(build: Path) -> None:
    use_what_is_compiled({"MUSTER_COMPILED": "0"}, build, build.parent)
    assert str(running) == "plain Python: MUSTER_COMPILED says so"
    with pytest.raises(SettingError, match="MUSTER_COMPILED='perhaps'"):
        use_what_is_compiled({"MUSTER_COMPILED": "perhaps"}, build, build.parent)


def test_plain_modules_that_are_here_already_are_not_mixed_with_compiled_ones(
    build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, HOT, sys)
    use_what_is_compiled({}, build, build.parent)
    assert str(running) == f"plain Python: {HOT} was imported before"


def test_without_a_build_nothing_is_compiled(tmp_path: Path) -> None:
    use_what_is_compiled({}, tmp_path, tmp_path)
    assert str(running) == "plain Python: nothing is compiled"
    (tmp_path / SEAL).write_text("", "utf-8")
    use_what_is_compiled({}, tmp_path, tmp_path)
    assert str(running) == "plain Python: nothing is compiled"


def test_a_compiled_broker_stores_records_and_gives_them_back(tmp_path: Path) -> None:
    if not (BUILD / SEAL).exists():
        pytest.skip("nothing is compiled: `make compiled` does")
    with muster(tmp_path) as broker:
        if "compiled modules" not in broker.runs:
            pytest.skip("what is compiled does not fit these sources: `make compiled`")
        broker.new_topic("orders")
        address = Broker(broker).address
        records = bytes(made_batch([b"one", b"two"]))
        for stored_at in (0, 2, 4):
            answer = read(answer_of(*address, produce("orders", 0, records).request), ApiKey.PRODUCE, VERSION)
            (told,) = answer.responses[0].partition_responses
            assert (int(told.error_code), told.base_offset) == (0, stored_at)
        (fetched,) = read(answer_of(*address, fetch("orders", 1, 1_000_000))).responses[0].partitions
        assert (int(fetched.error_code), fetched.high_watermark) == (0, 6)
        assert len(fetched.records) == 3 * len(records)
